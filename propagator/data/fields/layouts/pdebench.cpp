#include <fmt/ranges.h>

#include <algorithm>

#include "propagator/core/error.h"
#include "propagator/core/plain_text.h"
#include "propagator/data/fields/layouts/field_content.h"

// The files of PDEBench: one array, an array for each quantity, or a group for
// each case.

namespace propagator::data {
namespace {

const std::vector<std::string> kNames{"x", "y", "z"};
const std::string kData = "/data";

std::vector<int64_t> space_roles(size_t count) {
  std::vector<int64_t> roles;
  for (size_t d = 0; d < count; ++d) roles.push_back(static_cast<int64_t>(d));
  return roles;
}

// Case, time, space: what single files have in front of channels.
std::vector<int64_t> usual_roles(size_t space) {
  auto roles = space_roles(space);
  roles.insert(roles.begin(), {kCaseAxis, kTimeAxis});
  return roles;
}

// Numbers of the equation, such as beta or Nu.
void remark_attributes(const TensorReader& reader, FieldContent& content) {
  for (const auto& name : reader.attributes("")) {
    const auto numbers = reader.numbers("", name);
    if (numbers.size() != 1) continue;
    content.remarks.push_back(
        fmt::format("{} {:.6g}", plain_text(name), numbers[0]));
  }
}

// Of an array (N, T, space…): `<axis>-coordinate`, and one time too many.
void add_coordinates(const OpenFields& file, const std::vector<int64_t>& shape,
                     FieldContent& content) {
  auto& layout = content.layout;
  layout.times =
      places_or_numbers(*file.reader, "t-coordinate", shape[1], content);
  for (size_t d = 2; d < shape.size(); ++d) {
    const auto& name = kNames[d - 2];
    layout.axes.push_back({name,
                           places_or_numbers(*file.reader, name + "-coordinate",
                                             shape[d], content),
                           Boundary::kOpen});
  }
}

bool is_one_of(const TensorReader& reader, const std::string& name,
               size_t fewest, size_t most) {
  const auto& all = reader.shapes();
  const auto found = all.find(name);
  return found != all.end() && found->second.size() >= fewest &&
         found->second.size() <= most;
}

std::optional<FieldContent> read_single(const OpenFields& file) {
  const auto& reader = *file.reader;
  if (!is_one_of(reader, "tensor", 3, 5) ||
      !reader.shapes().contains("x-coordinate")) {
    return std::nullopt;
  }
  const auto shape = reader.shape("tensor");
  const size_t space = shape.size() - 2;
  FieldContent content{.kind = "PDEBench, one array", .layout = {}, .runs = {}};
  add_coordinates(file, shape, content);
  content.layout.channels = {"u"};
  FieldRun run{shape[0], {file.piece("tensor", usual_roles(space))}};
  if (is_one_of(reader, "nu", space + 1, space + 1)) {
    auto roles = space_roles(space);
    roles.insert(roles.begin(), kCaseAxis);
    run.pieces.push_back(file.piece("nu", roles));
    content.layout.channels.emplace_back("nu");
  }
  content.runs.push_back(run);
  return content;
}

std::optional<FieldContent> read_compressible(const OpenFields& file) {
  const auto& reader = *file.reader;
  for (const auto* name : {"density", "pressure", "Vx"}) {
    if (!is_one_of(reader, name, 3, 5)) return std::nullopt;
  }
  const auto shape = reader.shape("density");
  FieldContent content{
      .kind = "PDEBench, compressible flow", .layout = {}, .runs = {}};
  add_coordinates(file, shape, content);
  FieldRun run{shape[0], {}};
  for (const auto* name : {"density", "pressure", "Vx", "Vy", "Vz"}) {
    if (!reader.shapes().contains(name)) continue;
    run.pieces.push_back(file.piece(name, usual_roles(shape.size() - 2)));
    content.layout.channels.emplace_back(name);
  }
  content.runs.push_back(run);
  return content;
}

std::optional<FieldContent> read_incompressible(const OpenFields& file) {
  const auto& reader = *file.reader;
  if (!is_one_of(reader, "velocity", 4, 6) ||
      !is_one_of(reader, "particles", 4, 6)) {
    return std::nullopt;
  }
  const auto shape = reader.shape("velocity");
  const size_t space = shape.size() - 3;
  FieldContent content{
      .kind = "PDEBench, incompressible flow", .layout = {}, .runs = {}};
  auto& layout = content.layout;
  layout.times = places_or_numbers(reader, "t", shape[1], content);
  for (size_t d = 0; d < space; ++d) {
    layout.axes.push_back({kNames[d],
                           torch::arange(shape[d + 2], torch::kFloat64),
                           Boundary::kOpen});
  }
  auto roles = usual_roles(space);
  roles.push_back(kChannelAxis);
  FieldRun run{shape[0], {}};
  const auto add = [&](const char* name, const std::vector<int64_t>& axes) {
    const auto piece = file.piece(name, axes);
    for (int64_t c = 0; c < piece.channels(); ++c) {
      layout.channels.push_back(
          piece.channels() == 1 ? name : fmt::format("{}_{}", name, c));
    }
    run.pieces.push_back(piece);
  };
  add("velocity", roles);
  add("particles", roles);
  if (is_one_of(reader, "force", space + 2, space + 2)) {
    auto constant = roles;
    std::erase(constant, kTimeAxis);
    add("force", constant);
  }
  content.runs.push_back(run);
  return content;
}

// Groups of digits with an array `data`, in order.
std::vector<std::string> numbered_groups(const TensorReader& reader) {
  std::vector<std::string> groups;
  for (const auto& [name, shape] : reader.shapes()) {
    if (!name.ends_with(kData)) continue;
    const auto group = name.substr(0, name.size() - kData.size());
    if (group.empty() || !std::ranges::all_of(group, [](char c) {
          return c >= '0' && c <= '9';
        })) {
      continue;
    }
    groups.push_back(group);
  }
  return groups;
}

// Roles of (time, space…, channel): by the sizes of the grid where they differ,
// else by what is known of the two sets with two axes.
std::vector<int64_t> group_roles(const OpenFields& file,
                                 const std::string& group,
                                 const std::vector<int64_t>& shape,
                                 FieldContent& content) {
  auto roles = space_roles(shape.size() - 2);
  if (roles.size() == 2) {
    const auto size_of = [&](const char* axis) {
      const auto& all = file.reader->shapes();
      const auto found = all.find(group + "/grid/" + axis);
      return found == all.end() || found->second.size() != 1 ? int64_t{-1}
                                                             : found->second[0];
    };
    const int64_t x = size_of("x"), y = size_of("y");
    const bool told = x > 0 && y > 0 && x != y;
    const bool y_first = told ? shape[1] == y : shape[3] == 2;
    if (y_first) std::swap(roles[0], roles[1]);
    content.remarks.push_back(
        fmt::format("axes time, {}, channel{}", y_first ? "y, x" : "x, y",
                    told ? ", by the sizes of its grid"
                         : fmt::format(", as sets of {} channel{} have them",
                                       shape[3], shape[3] == 1 ? "" : "s")));
  }
  roles.insert(roles.begin(), kTimeAxis);
  roles.push_back(kChannelAxis);
  return roles;
}

std::optional<FieldContent> read_groups(const OpenFields& file) {
  const auto groups = numbered_groups(*file.reader);
  if (groups.empty()) return std::nullopt;
  const auto shape = file.reader->shape(groups[0] + kData);
  if (shape.size() < 3 || shape.size() > 5) return std::nullopt;
  FieldContent content{
      .kind = "PDEBench, a group for each case", .layout = {}, .runs = {}};
  auto& layout = content.layout;
  const auto roles = group_roles(file, groups[0], shape, content);
  const auto grid = groups[0] + "/grid/";
  layout.times = places_or_numbers(*file.reader, grid + "t", shape[0], content);
  for (size_t d = 0; d + 2 < shape.size(); ++d) {
    const auto found = std::ranges::find(roles, static_cast<int64_t>(d));
    const int64_t count = shape[static_cast<size_t>(found - roles.begin())];
    layout.axes.push_back(
        {kNames[d],
         places_or_numbers(*file.reader, grid + kNames[d], count, content),
         Boundary::kOpen});
  }
  for (int64_t c = 0; c < shape.back(); ++c) {
    layout.channels.push_back(shape.back() == 1 ? "u" : fmt::format("u{}", c));
  }
  for (const auto& group : groups) {
    content.runs.push_back({1, {file.piece(group + kData, roles)}});
  }
  return content;
}

}  // namespace

std::optional<FieldContent> read_pdebench(const OpenFields& file) {
  for (const auto read :
       {read_single, read_compressible, read_incompressible, read_groups}) {
    if (auto found = read(file)) {
      remark_attributes(*file.reader, *found);
      return found;
    }
  }
  return std::nullopt;
}

std::optional<FieldContent> read_fno_mat(const OpenFields& file) {
  const auto& all = file.reader->shapes();
  for (const auto* name : {"a", "u", "t"}) {
    if (!all.contains(name)) return std::nullopt;
  }
  const auto &u = all.at("u"), &a = all.at("a"), &t = all.at("t");
  int64_t times = 1;
  for (const int64_t n : t) times *= n;
  const bool fits = u.size() >= 3 && u.size() <= 5 && times == u.back() &&
                    std::vector(u.begin(), u.end() - 1) == a;
  if (!fits) return std::nullopt;
  FieldContent content{
      .kind = "initial fields a and later ones u, with time last",
      .layout = {},
      .runs = {},
      .remarks = {"a is not read"}};
  content.layout.times = places_or_numbers(*file.reader, "t", times, content);
  auto roles = space_roles(u.size() - 2);
  for (size_t d = 0; d < roles.size(); ++d) {
    content.layout.axes.push_back(
        {kNames[d], torch::arange(u[d + 1], torch::kFloat64), Boundary::kOpen});
  }
  roles.insert(roles.begin(), kCaseAxis);
  roles.push_back(kTimeAxis);
  content.layout.channels = {"u"};
  content.runs.push_back({u[0], {file.piece("u", roles)}});
  return content;
}

}  // namespace propagator::data
