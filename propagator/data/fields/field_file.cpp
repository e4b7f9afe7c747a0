#include "propagator/data/fields/field_file.h"

#include <algorithm>
#include <set>

#include "propagator/core/error.h"
#include "propagator/core/json.h"
#include "propagator/core/plain_text.h"
#include "propagator/data/hdf5.h"

namespace propagator::data {
namespace {

constexpr const char* kFields = "fields";
constexpr const char* kParameters = "parameters";
constexpr const char* kConstants = "constants";
constexpr size_t kMaxAxes = 3;
constexpr size_t kLongestWord = 64;

// Names that the file has for itself.
const std::set<std::string> kTaken{kFields, kParameters, kConstants, "t",
                                   "note"};

bool is_word(const std::string& text) {
  return !text.empty() && text.size() <= kLongestWord && is_plain_text(text) &&
         text.find('/') == std::string::npos;
}

// (N, T, space…, C)
std::vector<int64_t> shape_of(const FieldLayout& layout, int64_t cases) {
  std::vector<int64_t> shape{cases, layout.times.numel()};
  for (const auto& axis : layout.axes) shape.push_back(axis.at.numel());
  shape.push_back(static_cast<int64_t>(layout.channels.size()));
  return shape;
}

// (N, space…, K)
std::vector<int64_t> constants_shape(const FieldLayout& layout, int64_t cases) {
  auto shape = shape_of(layout, cases);
  shape.erase(shape.begin() + 1);
  shape.back() = static_cast<int64_t>(layout.constants.size());
  return shape;
}

}  // namespace

Tensors field_tensors(const FieldSet& set) {
  const auto& layout = set.layout;
  const auto expect = [](const char* name, const torch::Tensor& got,
                         const std::vector<int64_t>& expected) {
    if (got.defined() && got.sizes() == expected) return;
    throw UsageError(fmt::format(
        "[fields] expected {} of shape ({}), got ({})", name,
        fmt::join(expected, ", "),
        got.defined() ? fmt::format("{}", fmt::join(got.sizes().vec(), ", "))
                      : "nothing"));
  };
  expect("values", set.values,
         shape_of(layout, set.values.defined() ? set.values.size(0) : 0));
  Tensors tensors{{kFields, set.values.to(torch::kFloat32)},
                  {"t", layout.times.to(torch::kFloat64)}};
  for (const auto& axis : layout.axes) {
    if (!is_word(axis.name) || kTaken.contains(axis.name)) {
      throw UsageError(fmt::format("[fields] an axis cannot be named '{}'",
                                   plain_text(axis.name)));
    }
    tensors[axis.name] = axis.at.to(torch::kFloat64);
  }
  if (!layout.parameters.empty()) {
    expect(kParameters, set.parameters,
           {set.cases(), static_cast<int64_t>(layout.parameters.size())});
    tensors[kParameters] = set.parameters.to(torch::kFloat64);
  }
  if (!layout.constants.empty()) {
    expect(kConstants, set.constants, constants_shape(layout, set.cases()));
    tensors[kConstants] = set.constants.to(torch::kFloat32);
  }
  return tensors;
}

nlohmann::json field_note(const FieldLayout& layout) {
  auto axes = nlohmann::json::array(), boundaries = axes;
  for (const auto& axis : layout.axes) {
    axes.push_back(axis.name);
    boundaries.push_back(config::name_of(axis.boundary));
  }
  nlohmann::json note{{"layout", "fields"},
                      {"axes", axes},
                      {"boundaries", boundaries},
                      {"channels", layout.channels},
                      {"parameters", layout.parameters}};
  if (!layout.constants.empty()) note[kConstants] = layout.constants;
  return note;
}

void write_field_set(const std::filesystem::path& path, const FieldSet& set) {
  auto note = set.note;
  note.update(field_note(set.layout));
  save_tensors(path, {field_tensors(set), note.dump()});
}

FieldWriter::FieldWriter(const std::filesystem::path& path,
                         const FieldLayout& layout, int64_t cases)
    : has_parameters_(!layout.parameters.empty()),
      has_constants_(!layout.constants.empty()) {
  std::map<std::string, StoredArray> arrays{
      {kFields, {torch::kFloat32, shape_of(layout, cases)}}};
  Tensors lines{{"t", layout.times}};
  for (const auto& axis : layout.axes) lines[axis.name] = axis.at;
  for (const auto& [name, line] : lines) {
    arrays[name] = {torch::kFloat64, line.sizes().vec()};
  }
  if (has_parameters_) {
    const auto count = static_cast<int64_t>(layout.parameters.size());
    arrays[kParameters] = {torch::kFloat64, {cases, count}};
  }
  if (has_constants_) {
    arrays[kConstants] = {torch::kFloat32, constants_shape(layout, cases)};
  }
  writer_ = create_hdf5(path, arrays, "");
  for (const auto& [name, line] : lines) writer_->write_rows(name, 0, line);
}

void FieldWriter::write(int64_t begin, const torch::Tensor& values,
                        const torch::Tensor& parameters,
                        const torch::Tensor& constants) {
  writer_->write_rows(kFields, begin, values);
  if (has_parameters_) writer_->write_rows(kParameters, begin, parameters);
  if (has_constants_) writer_->write_rows(kConstants, begin, constants);
}

void FieldWriter::close(const std::string& note) {
  writer_->set_note(note);
  writer_->close();
}

bool FieldReader::is_field_file(const TensorReader& reader) {
  const auto note = parse_json(reader.note());
  return note.is_object() && note.contains("layout") &&
         note.at("layout") == "fields";
}

FieldReader::FieldReader(const std::filesystem::path& path)
    : path_(path.string()), reader_(TensorReader::open(path)) {
  note_ = parse_json(reader_->note());
  if (!is_field_file(*reader_)) {
    throw DataError(
        fmt::format("{}: expected a file of fields, whose note says "
                    "\"layout\": \"fields\"",
                    path_),
        "`propagator data generate advection` writes one");
  }
  read_layout();
  read_axes();
  if (!layout_.constants.empty()) check_constants();
  if (!layout_.parameters.empty()) {
    const auto count = static_cast<int64_t>(layout_.parameters.size());
    const std::vector<int64_t> expected{cases_, count};
    if (reader_->shape(kParameters) != expected) {
      fail(fmt::format("expected 'parameters' of shape ({}), got ({})",
                       fmt::join(expected, ", "),
                       fmt::join(reader_->shape(kParameters), ", ")));
    }
    parameters_ = reader_->all(kParameters).to(torch::kFloat64);
    if (!torch::isfinite(parameters_).all().item<bool>()) {
      fail("some of 'parameters' are not finite");
    }
  }
}

void FieldReader::check_constants() const {
  const auto expected = constants_shape(layout_, cases_),
             got = reader_->shape(kConstants);
  if (got == expected) return;
  fail(fmt::format("expected 'constants' of shape ({}), got ({})",
                   fmt::join(expected, ", "), fmt::join(got, ", ")));
}

void FieldReader::fail(const std::string& what) const {
  throw DataError(fmt::format("{}: {}", path_, what));
}

// A list of names that differ, as the note has it.
std::vector<std::string> FieldReader::words(const char* key) const {
  const auto found = note_.find(key);
  if (found == note_.end() || !found->is_array()) {
    fail(fmt::format("expected a list '{}' in its note", key));
  }
  std::vector<std::string> all;
  for (const auto& item : *found) {
    if (!item.is_string() || !is_word(item.get<std::string>())) {
      fail(fmt::format("expected plain names under '{}' of its note", key));
    }
    all.push_back(item.get<std::string>());
    if (std::ranges::count(all, all.back()) > 1 &&
        std::string(key) != "boundaries") {
      fail(fmt::format("'{}' is there twice under '{}' of its note", all.back(),
                       key));
    }
  }
  return all;
}

void FieldReader::read_layout() {
  const auto axes = words("axes"), boundaries = words("boundaries");
  layout_.channels = words("channels");
  layout_.parameters = words("parameters");
  if (note_.contains(kConstants)) layout_.constants = words(kConstants);
  if (axes.empty() || axes.size() > kMaxAxes) {
    fail(fmt::format("expected one to three axes, got {}", axes.size()));
  }
  if (boundaries.size() != axes.size()) {
    fail(fmt::format("expected a boundary for each of {} axes, got {}",
                     axes.size(), boundaries.size()));
  }
  if (layout_.channels.empty()) fail("expected at least one channel, got none");
  for (size_t n = 0; n < axes.size(); ++n) {
    if (kTaken.contains(axes[n])) {
      fail(fmt::format("an axis cannot be named '{}'", axes[n]));
    }
    try {
      layout_.axes.push_back(
          {axes[n], {}, config::value_of<Boundary>(boundaries[n])});
    } catch (const std::invalid_argument& error) {
      fail(fmt::format("boundary of {}: {}, got '{}'", axes[n], error.what(),
                       boundaries[n]));
    }
  }
}

torch::Tensor FieldReader::line(const std::string& name, int64_t count) const {
  const auto shape = reader_->shape(name);
  if (shape != std::vector<int64_t>{count}) {
    fail(fmt::format("expected '{}' of shape ({}), got ({})", name, count,
                     fmt::join(shape, ", ")));
  }
  const auto at = reader_->all(name).to(torch::kFloat64);
  if (!torch::isfinite(at).all().item<bool>()) {
    fail(fmt::format("some of '{}' are not finite", name));
  }
  if (count > 1 && !(at.diff() > 0).all().item<bool>()) {
    fail(fmt::format("expected '{}' to rise", name));
  }
  return at;
}

void FieldReader::read_axes() {
  const auto shape = reader_->shape(kFields);
  if (shape.size() != layout_.axes.size() + 3) {
    fail(
        fmt::format("expected 'fields' of shape (cases, time, {}, channels), "
                    "got ({})",
                    fmt::join(words("axes"), ", "), fmt::join(shape, ", ")));
  }
  if (std::ranges::find(shape, 0) != shape.end()) {
    fail(fmt::format("'fields' is empty: ({})", fmt::join(shape, ", ")));
  }
  if (shape.back() != static_cast<int64_t>(layout_.channels.size())) {
    fail(
        fmt::format("expected {} channels of 'fields', as its note names, got "
                    "{}",
                    layout_.channels.size(), shape.back()));
  }
  cases_ = shape[0];
  layout_.times = line("t", shape[1]);
  for (size_t n = 0; n < layout_.axes.size(); ++n) {
    layout_.axes[n].at = line(layout_.axes[n].name, shape[n + 2]);
  }
}

torch::Tensor FieldReader::values(int64_t begin, int64_t count) const {
  if (begin < 0 || count < 0 || begin > cases_ - count) {
    throw UsageError(
        fmt::format("[fields] expected cases of 0 … {}, got {} … "
                    "{}",
                    cases_ - 1, begin, begin + count - 1));
  }
  const auto rows = reader_->rows(kFields, begin, count).to(torch::kFloat32);
  if (!torch::isfinite(rows).all().item<bool>()) {
    const auto bad = torch::logical_not(torch::isfinite(rows)).nonzero()[0];
    fail(fmt::format("case {}, frame {} has a number that is not finite",
                     begin + bad[0].item<int64_t>(), bad[1].item<int64_t>()));
  }
  return rows;
}

torch::Tensor FieldReader::constants() const {
  if (layout_.constants.empty()) return {};
  const auto all = reader_->all(kConstants).to(torch::kFloat32);
  if (!torch::isfinite(all).all().item<bool>()) {
    fail("some of 'constants' are not finite");
  }
  return all;
}

FieldSet read_field_set(const std::filesystem::path& path) {
  const FieldReader reader(path);
  return {.layout = reader.layout(),
          .values = reader.values(0, reader.cases()),
          .parameters = reader.parameters(),
          .note = reader.note(),
          .constants = reader.constants()};
}

}  // namespace propagator::data
