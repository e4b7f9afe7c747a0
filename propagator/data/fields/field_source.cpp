#include "propagator/data/fields/field_source.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "propagator/core/error.h"
#include "propagator/core/plain_text.h"
#include "propagator/data/fields/layouts/field_content.h"

namespace propagator::data {
namespace {

using torch::Tensor;

// How far the ends of a periodic axis differ, over how far neighbours do.
constexpr double kLeastOfPeriodic = 0.2, kMostOfPeriodic = 1.5;
constexpr double kFixed = 1e-3;  // of the spread of what is inside
constexpr int64_t kCasesToGuess = 8, kFramesToGuess = 32;

std::optional<FieldContent> read_known(const OpenFields& file) {
  for (const auto read :
       {read_own_fields, read_well_file, read_pdebench, read_fno_mat}) {
    if (auto found = read(file)) return found;
  }
  return std::nullopt;
}

// An end that is fixed beside an inside that moves is a wall; ends that differ
// as neighbours do belong together.
Boundary guessed_boundary(const Tensor& some, int64_t axis) {
  const auto along = some.movedim(axis + 2, 0).flatten(1);  // (n, all)
  const int64_t nodes = along.size(0);
  if (nodes < 4) return Boundary::kOpen;
  const auto mean = [](const Tensor& x) {
    return x.abs().mean().item<double>();
  };
  const auto spread = [](const Tensor& x) {
    return x.std(/*unbiased=*/false).item<double>();
  };
  const double inside = spread(along);
  if (spread(along[0]) < kFixed * inside &&
      spread(along[nodes - 1]) < kFixed * inside) {
    return Boundary::kWall;
  }
  const double step = mean(along.diff(1, 0)), wrap = mean(along[0] - along[-1]);
  const bool joined =
      wrap > kLeastOfPeriodic * step && wrap < kMostOfPeriodic * step;
  return joined ? Boundary::kPeriodic : Boundary::kOpen;
}

}  // namespace

void FieldChoices::describe(config::Schema& s) {
  s.field("array", array,
          {.help = "array of the file that holds the fields; empty: the only "
                   "one that can, or `fields`"});
  s.field("axes", axes,
          {.help = "what each axis of that array is, in order: case, time, "
                   "names of one to three axes of space, channel; empty: "
                   "guessed by its shape, and printed"});
  s.field("channels", channels,
          {.help = "names of the channels; empty: as the file has them"});
  s.field("constants", constants,
          {.help = "fields that do not change in time, of arrays (case, space, "
                   "channel), which a forecast is told and does not answer: by "
                   "name, or none; empty: those that the file has, and is "
                   "printed, unless channels are named",
           .later = true});
  s.field("boundaries", boundaries,
          {.help = "periodic, wall or open for each axis of space, or one for "
                   "all; empty: as the file says, or as its ends look"});
}

FieldContent read_field_file(const std::filesystem::path& path,
                             const FieldChoices& choices) {
  const OpenFields file{path.string(), TensorReader::open(path)};
  std::optional<FieldContent> found;
  if (choices.array.empty() && choices.axes.empty()) found = read_known(file);
  if (!found) found = read_any_array(file, choices);
  part_constants(*found, choices);
  return std::move(*found);
}

std::optional<FieldSource> known_fields(const std::filesystem::path& path) {
  if (!is_field_path(path)) return std::nullopt;
  if (!std::filesystem::is_directory(path) &&
      !read_known({path.string(), TensorReader::open(path)})) {
    return std::nullopt;
  }
  return FieldSource(path, {});
}

FieldSource::FieldSource(const std::filesystem::path& path,
                         const FieldChoices& choices)
    : file_(path), path_(plain_text(path.string())) {
  std::error_code ignored;  // such as of a name that is too long
  auto content = std::filesystem::is_directory(path, ignored)
                     ? read_field_folder(path, choices)
                     : read_field_file(path, choices);
  check_content(path_, content);
  cases_ = content.cases();
  layout_ = content.layout;
  guessed_ = !content.boundaries_known && choices.boundaries.empty();
  content_ = std::make_shared<const FieldContent>(std::move(content));
  if (!choices.channels.empty()) {
    if (choices.channels.size() != layout_.channels.size()) {
      throw ConfigError(
          "data.channels",
          fmt::format("expected {} names, got {}", layout_.channels.size(),
                      choices.channels.size()));
    }
    layout_.channels = choices.channels;
  }
  if (!choices.boundaries.empty()) {
    set_boundaries(choices.boundaries);
  } else if (guessed_) {
    const auto some = values(0, std::min(kCasesToGuess, cases()), 0,
                             std::min(kFramesToGuess, frames()));
    for (int64_t d = 0; d < std::ssize(layout_.axes); ++d) {
      layout_.axes[static_cast<size_t>(d)].boundary = guessed_boundary(some, d);
    }
  }
}

void FieldSource::set_boundaries(const std::vector<std::string>& wanted) {
  const size_t axes = layout_.axes.size();
  if (wanted.size() != 1 && wanted.size() != axes) {
    throw ConfigError("data.boundaries",
                      fmt::format("expected one, or one for each of {} axes, "
                                  "got {}",
                                  axes, wanted.size()));
  }
  for (size_t d = 0; d < axes; ++d) {
    const auto& text = wanted[wanted.size() == 1 ? 0 : d];
    try {
      layout_.axes[d].boundary = config::value_of<Boundary>(text);
    } catch (const std::invalid_argument& error) {
      throw ConfigError("data.boundaries",
                        fmt::format("{}, got '{}'", error.what(), text));
    }
  }
}

std::vector<int64_t> FieldSource::nodes() const { return content_->nodes(); }

const Tensor& FieldSource::parameters() const { return content_->parameters; }

bool FieldSource::has_split() const { return content_->split.has_value(); }

SplitIndices FieldSource::split(int64_t seed, const SplitShares& shares) const {
  if (content_->split) return *content_->split;
  if (cases_ >= kFewestCases) return make_split(cases_, seed, shares);
  throw DataError(
      fmt::format("{}: expected at least {} cases, to train on some and to "
                  "test on others, got {}",
                  path_, kFewestCases, cases_),
      "one long history can be cut into cases");
}

const nlohmann::json& FieldSource::note() const { return content_->note; }

const std::string& FieldSource::kind() const { return content_->kind; }

bool FieldSource::is_known() const { return content_->known; }

const std::vector<std::string>& FieldSource::remarks() const {
  return content_->remarks;
}

template <class Read>
Tensor FieldSource::read_runs(int64_t begin, int64_t count, Read read) const {
  std::vector<Tensor> parts;
  int64_t at = 0;  // the first case of the run
  for (const auto& run : content_->runs) {
    const int64_t from = std::max(begin, at),
                  to = std::min(begin + count, at + run.cases);
    if (from < to) parts.push_back(read(run, from - at, to - from));
    at += run.cases;
  }
  const auto all =
      parts.size() == 1 ? parts[0].contiguous() : torch::cat(parts);
  return content_->nan_is_zero ? all.masked_fill(torch::isnan(all), 0) : all;
}

Tensor FieldSource::values(int64_t begin, int64_t count) const {
  return values(begin, count, 0, frames());
}

Tensor FieldSource::values(int64_t begin, int64_t count, int64_t first,
                           int64_t frames) const {
  const int64_t all = this->frames();
  if (begin < 0 || count < 0 || begin > cases_ - count || first < 0 ||
      frames < 0 || first > all - frames) {
    throw UsageError(fmt::format(
        "[fields] expected cases of 0 … {} and frames of 0 … {}, got {} … {} "
        "and {} … {}",
        cases_ - 1, all - 1, begin, begin + count - 1, first,
        first + frames - 1));
  }
  const auto nodes = this->nodes();
  const auto numbers = read_runs(
      begin, count, [&](const FieldRun& run, int64_t from, int64_t cases) {
        return read_run(run, nodes, from, cases, first, frames);
      });
  expect_finite(numbers, begin, first);
  return numbers;
}

Tensor FieldSource::constants(int64_t begin, int64_t count) const {
  if (layout_.constants.empty()) return {};
  const auto nodes = this->nodes();
  const auto numbers = read_runs(
      begin, count, [&](const FieldRun& run, int64_t from, int64_t cases) {
        return read_constants(run, nodes, from, cases);
      });
  const auto bad = torch::isfinite(numbers).logical_not().nonzero();
  if (bad.size(0) == 0) return numbers;
  throw DataError(fmt::format(
      "{}: case {} has a number of {} that is not finite", path_,
      begin + bad[0][0].item<int64_t>(),
      layout_.constants[static_cast<size_t>(bad[0][-1].item<int64_t>())]));
}

void FieldSource::expect_finite(const Tensor& numbers, int64_t begin,
                                int64_t first) const {
  const auto finite = torch::isfinite(numbers);
  if (finite.all().item<bool>()) return;
  const auto bad = torch::logical_not(finite).nonzero()[0];
  throw DataError(fmt::format(
      "{}: case {}, frame {} has a number that is not finite", path_,
      begin + bad[0].item<int64_t>(), first + bad[1].item<int64_t>()));
}

std::string FieldSource::describe() const {
  std::vector<std::string> axes;
  for (const auto& axis : layout_.axes) {
    axes.push_back(fmt::format("{} {} ({})", axis.at.numel(), axis.name,
                               config::name_of(axis.boundary)));
  }
  auto text = fmt::format("{}: {} cases of {} frames on {}; channels {}", path_,
                          cases_, frames(), fmt::join(axes, " x "),
                          fmt::join(layout_.channels, ", "));
  if (!layout_.parameters.empty()) {
    text += fmt::format("; numbers of each case {}",
                        fmt::join(layout_.parameters, ", "));
  }
  if (!layout_.constants.empty()) {
    text +=
        fmt::format("; constant inputs {}", fmt::join(layout_.constants, ", "));
  }
  text += fmt::format("; taken for {}", kind());
  if (guessed_) text += ", with guessed boundaries";
  for (const auto& remark : remarks()) text += "; " + remark;
  if (guessed_) text += " (data.axes, data.boundaries say otherwise)";
  return text;
}

}  // namespace propagator::data
