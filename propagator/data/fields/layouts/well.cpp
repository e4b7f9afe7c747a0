#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "propagator/core/error.h"
#include "propagator/core/plain_text.h"
#include "propagator/data/fields/layouts/field_content.h"

// Files of The Well: groups dimensions, t0_fields (scalars), t1_fields
// (vectors), t2_fields (matrices), scalars and boundary_conditions.

namespace propagator::data {
namespace {

using torch::Tensor;

constexpr const char* kDimensions = "dimensions";
constexpr const char* kScalars = "scalars";
const std::string kBoundaries = "boundary_conditions/";

[[noreturn]] void fail_well(const OpenFields& file, const std::string& what) {
  throw DataError(fmt::format("{}: {}", file.path, what));
}

bool has_group(const TensorReader& reader, const std::string& name) {
  const auto groups = reader.groups();
  return std::ranges::find(groups, name) != groups.end();
}

// A truth that may be missing.
bool flag_of(const TensorReader& reader, const std::string& object,
             const char* name, bool otherwise) {
  const auto values = reader.numbers(object, name);
  return values.empty() ? otherwise : values[0] != 0;
}

// Names of a group's arrays, in the order that it says.
std::vector<std::string> names_in(const TensorReader& reader,
                                  const std::string& group) {
  const auto said = reader.texts(group, "field_names");
  if (!said.empty()) return said;
  std::vector<std::string> names;
  const auto prefix = group + "/";
  for (const auto& [name, shape] : reader.shapes()) {
    if (name.starts_with(prefix)) names.push_back(name.substr(prefix.size()));
  }
  return names;
}

// An array of one of the groups of fields, whose axes attributes tell.
FieldPiece field_piece(const OpenFields& file, const std::string& array,
                       size_t dims, size_t order) {
  const auto& reader = *file.reader;
  std::vector<int64_t> roles;
  if (flag_of(reader, array, "sample_varying", true)) {
    roles.push_back(kCaseAxis);
  }
  if (flag_of(reader, array, "time_varying", true)) roles.push_back(kTimeAxis);
  const auto varying = reader.numbers(array, "dim_varying");
  for (size_t d = 0; d < dims; ++d) {
    if (varying.size() != dims || varying[d] != 0) {
      roles.push_back(static_cast<int64_t>(d));
    }
  }
  roles.insert(roles.end(), order, kChannelAxis);
  auto piece = file.piece(array, roles);
  for (size_t n = 0; n < order; ++n) {
    if (piece.shape[piece.shape.size() - 1 - n] == static_cast<int64_t>(dims)) {
      continue;
    }
    fail_well(file,
              fmt::format("expected {} components of '{}' ({})", dims,
                          plain_text(array), fmt::join(piece.shape, ", ")));
  }
  return piece;
}

// velocity_x, stress_xy: components row by row.
void name_components(const std::string& name,
                     const std::vector<std::string>& dims, size_t order,
                     std::vector<std::string>& channels) {
  if (order == 0) channels.push_back(name);
  for (const auto& row : dims) {
    if (order == 1) channels.push_back(name + "_" + row);
    if (order < 2) continue;
    for (const auto& column : dims) {
      channels.push_back(name + "_" + row + column);
    }
  }
}

FieldRun read_pieces(const OpenFields& file,
                     const std::vector<std::string>& dims,
                     FieldContent& content) {
  FieldRun run{0, {}};
  for (size_t order = 0; order < 3; ++order) {
    const auto group = fmt::format("t{}_fields", order);
    for (const auto& name : names_in(*file.reader, group)) {
      const auto piece =
          field_piece(file, group + "/" + name, dims.size(), order);
      if (std::ranges::count(piece.roles, kCaseAxis) > 0) {
        run.cases = piece.shape[0];
      }
      name_components(name, dims, order, content.layout.channels);
      run.pieces.push_back(piece);
    }
  }
  if (run.pieces.empty()) fail_well(file, "it has no fields");
  if (run.cases == 0) {
    const auto said = file.reader->numbers("", "n_trajectories");
    run.cases = said.empty() ? 1 : static_cast<int64_t>(said[0]);
  }
  return run;
}

// One number of each case, or the same for all; undefined where it changes.
Tensor scalar_of(const TensorReader& reader, const std::string& name,
                 int64_t cases) {
  const auto array = std::string(kScalars) + "/" + name;
  const auto& shapes = reader.shapes();
  const auto found = shapes.find(array);
  if (found == shapes.end()) {
    const auto said = reader.numbers("", name);
    return said.size() == 1 ? torch::full({cases}, said[0], torch::kFloat64)
                            : Tensor();
  }
  const auto& shape = found->second;
  if (flag_of(reader, array, "time_varying", false)) return {};
  const bool each = shape == std::vector<int64_t>{cases};
  const bool one = shape.empty() || shape == std::vector<int64_t>{1};
  if (!each && !one) return {};
  const auto values =
      reader.block(array, std::vector<int64_t>(shape.size(), 0), shape)
          .to(torch::kFloat64)
          .flatten();
  return values.expand({cases}).clone();
}

void read_scalars(const TensorReader& reader, int64_t cases,
                  FieldContent& content) {
  auto names = names_in(reader, kScalars);
  for (const auto& name : reader.texts("", "simulation_parameters")) {
    if (std::ranges::count(names, name) == 0) names.push_back(name);
  }
  std::vector<Tensor> columns;
  for (const auto& name : names) {
    const auto column = scalar_of(reader, name, cases);
    if (!column.defined()) {
      content.remarks.push_back(
          fmt::format("{} is not one number of each case, and is left out",
                      plain_text(name)));
      continue;
    }
    content.layout.parameters.push_back(name);
    columns.push_back(column);
  }
  if (!columns.empty()) content.parameters = torch::stack(columns, 1);
}

// Names in a text, or in a list of them.
std::vector<std::string> words_of(const std::vector<std::string>& texts) {
  std::vector<std::string> words;
  for (const auto& text : texts) {
    std::string word;
    for (const char c : text + " ") {
      if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
        word += c;
      } else if (!word.empty()) {
        words.push_back(std::exchange(word, ""));
      }
    }
  }
  return words;
}

// Whether a condition is one of the ends of its axis `n`: where it has a mask,
// this is true somewhere at the first or last index.
bool holds_at_ends(const TensorReader& reader, const std::string& group,
                   size_t n, size_t axes) {
  const auto name = group + "/mask";
  const auto& shapes = reader.shapes();
  const auto found = shapes.find(name);
  if (found == shapes.end() || found->second.size() != axes ||
      std::ranges::count(found->second, 0) > 0) {
    return true;
  }
  const auto mask = reader.all(name).movedim(static_cast<int64_t>(n), 0) != 0;
  return mask[0].any().item<bool>() || mask[-1].any().item<bool>();
}

void read_boundaries(const TensorReader& reader, FieldContent& content) {
  for (const auto& group : reader.groups()) {
    if (!group.starts_with(kBoundaries)) continue;
    const auto types = reader.texts(group, "bc_type");
    if (types.empty()) continue;
    std::string type = types[0];
    for (char& c : type) {
      c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
    const auto dims = words_of(reader.texts(group, "associated_dims"));
    for (size_t n = 0; n < dims.size(); ++n) {
      for (auto& axis : content.layout.axes) {
        if (axis.name != dims[n] ||
            !holds_at_ends(reader, group, n, dims.size())) {
          continue;
        }
        if (type == "PERIODIC") axis.boundary = Boundary::kPeriodic;
        if (type == "WALL" && axis.boundary == Boundary::kOpen) {
          axis.boundary = Boundary::kWall;
        }
      }
    }
  }
}

// How many entries the arrays have along an axis.
int64_t size_along(const OpenFields& file, const FieldRun& run, int64_t role,
                   const std::string& name) {
  for (const auto& piece : run.pieces) {
    const auto found = std::ranges::find(piece.roles, role);
    if (found == piece.roles.end()) continue;
    return piece.shape[static_cast<size_t>(found - piece.roles.begin())];
  }
  const auto shape =
      file.reader->shape(fmt::format("{}/{}", kDimensions, name));
  return shape.empty() ? 1 : shape.back();
}

}  // namespace

std::optional<FieldContent> read_well_file(const OpenFields& file) {
  const auto& reader = *file.reader;
  if (!has_group(reader, kDimensions) || !has_group(reader, "t0_fields")) {
    return std::nullopt;
  }
  const auto dims = reader.texts(kDimensions, "spatial_dims");
  const auto said = reader.numbers("", "n_spatial_dims");
  if (dims.empty() || dims.size() > 3 ||
      (!said.empty() && said[0] != static_cast<double>(dims.size()))) {
    fail_well(file, fmt::format("expected the names of one to three axes in "
                                "'spatial_dims' of its dimensions, got {}",
                                dims.size()));
  }
  FieldContent content{.kind = "The Well",
                       .layout = {},
                       .runs = {},
                       .boundaries_known = true,
                       .nan_is_zero = true};
  const auto run = read_pieces(file, dims, content);
  auto& layout = content.layout;
  const auto place = [&](const std::string& name, int64_t role) {
    return places_or_numbers(reader, fmt::format("{}/{}", kDimensions, name),
                             size_along(file, run, role, name), content);
  };
  layout.times = place("time", kTimeAxis);
  layout.times = layout.times - layout.times.slice(0, 0, 1);
  for (size_t d = 0; d < dims.size(); ++d) {
    layout.axes.push_back(
        {dims[d], place(dims[d], static_cast<int64_t>(d)), Boundary::kOpen});
  }
  read_scalars(reader, run.cases, content);
  read_boundaries(reader, content);
  if (const auto name = reader.texts("", "dataset_name"); name.size() == 1) {
    content.kind += ", " + plain_text(name[0]);
  }
  content.runs.push_back(run);
  return content;
}

}  // namespace propagator::data
