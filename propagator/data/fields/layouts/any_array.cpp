#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "propagator/core/error.h"
#include "propagator/core/plain_text.h"
#include "propagator/data/fields/field_source.h"
#include "propagator/data/fields/layouts/field_content.h"

// Fields without a layout of their own: an array, with others beside it.

namespace propagator::data {
namespace {

using torch::Tensor;

constexpr const char* kCase = "case";
constexpr const char* kTime = "time";
constexpr const char* kChannel = "channel";
constexpr size_t kMostAxes = 3;
constexpr int64_t kMostChannels = 8;  // that are guessed
const std::vector<std::string> kSpace{"x", "y", "z"};
const std::vector<std::string> kTimes{"t", "time", "times"};
constexpr const char* kSayAxes =
    "say what its axes are, as -s data.axes=[case, time, x, y, channel]";

std::string text_of(const std::vector<int64_t>& shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
}

[[noreturn]] void fail_array(const std::string& path, const std::string& what,
                             const std::string& hint = "") {
  throw DataError(fmt::format("{}: {}", path, what), hint);
}

Tensor line_of(const OpenFields& file, const std::string& name, int64_t count) {
  const auto at = file.reader->all(name).to(torch::kFloat64).flatten();
  if (at.numel() != count) {
    fail_array(file.path, fmt::format("expected {} numbers in '{}', got {}",
                                      count, name, at.numel()));
  }
  if (!torch::isfinite(at).all().item<bool>() ||
      (count > 1 && !(at.diff() > 0).all().item<bool>())) {
    fail_array(file.path, fmt::format("expected '{}' to rise", name));
  }
  return at;
}

// Arrays with one number of each case.
void read_numbers(const OpenFields& file, const std::string& array,
                  FieldContent& content) {
  std::vector<Tensor> numbers;
  for (const auto& [name, shape] : file.reader->shapes()) {
    const bool taken = name == array || std::ranges::count(kTimes, name) > 0 ||
                       std::ranges::count(content.layout.axes, name,
                                          &physics::FieldAxis::name) > 0;
    if (taken || !is_plain_text(name)) continue;
    if (shape != std::vector<int64_t>{content.cases()}) continue;
    const auto each = file.reader->all(name).to(torch::kFloat64);
    if (!torch::isfinite(each).all().item<bool>()) {
      fail_array(file.path, fmt::format("some of '{}' are not finite", name));
    }
    content.layout.parameters.push_back(name);
    numbers.push_back(each);
  }
  if (!numbers.empty()) content.parameters = torch::stack(numbers, 1);
}

// Where there is one time for each entry of the last axis, and not of the
// second, time comes last.
std::vector<std::string> guess(const OpenFields& file,
                               const std::vector<int64_t>& shape) {
  const auto& all = file.reader->shapes();
  for (const auto& name : kTimes) {
    const auto found = all.find(name);
    if (found == all.end() || shape.size() < 3 || shape.size() > 5) continue;
    const int64_t times =
        std::accumulate(found->second.begin(), found->second.end(), int64_t{1},
                        std::multiplies<>());
    if (times != shape.back() || times == shape[1]) continue;
    std::vector<std::string> names{kCase};
    names.insert(names.end(), kSpace.begin(),
                 kSpace.begin() + std::ssize(shape) - 2);
    names.emplace_back(kTime);
    return names;
  }
  return guessed_axes(shape);
}

// Names of axes of the array, as they are said or look; none where they cannot
// be told.
std::vector<std::string> axes_of(const OpenFields& file,
                                 const std::vector<int64_t>& shape,
                                 const FieldChoices& choices) {
  if (choices.axes.empty()) return guess(file, shape);
  return choices.axes.size() == shape.size() ? choices.axes
                                             : std::vector<std::string>();
}

// As it is called in the file, with its group or without, or one of its
// channels by its number: u, group/u, u0.
bool is_named(const FieldChoices& choices, const std::string& array) {
  const auto name = array.substr(array.rfind('/') + 1);
  return std::ranges::any_of(choices.constants, [&](const auto& wanted) {
    return wanted == name ||
           (wanted.starts_with(array) &&
            std::all_of(wanted.begin() + std::ssize(array), wanted.end(),
                        [](char c) { return c >= '0' && c <= '9'; }));
  });
}

// Of a field with such axes: (cases, space…) in their order.
std::vector<int64_t> constant_shape(const std::vector<int64_t>& shape,
                                    const std::vector<std::string>& axes) {
  std::vector<int64_t> expected{0};
  for (size_t d = 0; d < axes.size(); ++d) {
    if (axes[d] == kCase) expected[0] = shape[d];
    if (axes[d] == kCase || axes[d] == kTime || axes[d] == kChannel) continue;
    expected.push_back(shape[d]);
  }
  return expected;
}

// Whether numbers of that shape are at each node of each case, some channels
// behind or none.
bool fits(const std::vector<int64_t>& shape,
          const std::vector<int64_t>& expected) {
  const auto same = std::ranges::mismatch(shape, expected);
  return same.in2 == expected.end() &&
         (same.in1 == shape.end() ||
          (same.in1 + 1 == shape.end() && *same.in1 <= kMostChannels));
}

// What could be along time as well is no input unless it is named.
bool is_constant(const std::vector<int64_t>& shape,
                 const std::vector<int64_t>& fields,
                 const std::vector<std::string>& axes) {
  const auto time = std::ranges::find(axes, kTime) - axes.begin();
  return fits(shape, constant_shape(fields, axes)) &&
         shape[1] != fields[static_cast<size_t>(time)];
}

// The only one that all others can be constants of.
std::vector<std::string> fields_among(const OpenFields& file,
                                      const std::vector<std::string>& possible,
                                      const FieldChoices& choices) {
  const auto& all = file.reader->shapes();
  std::vector<std::string> found;
  for (const auto& name : possible) {
    const auto& shape = all.at(name);
    const auto axes = axes_of(file, shape, choices);
    if (axes.empty() || std::ranges::count(axes, kTime) == 0) continue;
    if (std::ranges::all_of(possible, [&](const auto& other) {
          return other == name || is_constant(all.at(other), shape, axes);
        })) {
      found.push_back(name);
    }
  }
  return found;
}

std::string chosen_array(const OpenFields& file, const FieldChoices& choices) {
  if (!choices.array.empty()) {
    file.reader->shape(choices.array);  // DataError if it is not there
    return choices.array;
  }
  std::vector<std::string> possible;
  for (const auto& [name, shape] : file.reader->shapes()) {
    if (shape.size() >= 3 && is_plain_text(name) && !is_named(choices, name)) {
      possible.push_back(name);
    }
  }
  if (std::ranges::count(possible, "fields") > 0) possible = {"fields"};
  if (possible.size() == 1) return possible.front();
  if (possible.empty()) {
    fail_array(file.path,
               "expected an array of three axes or more: cases, time, space",
               "`propagator data info` prints what a file has");
  }
  const auto found = fields_among(file, possible, choices);
  if (found.size() == 1) return found.front();
  fail_array(file.path,
             fmt::format("several arrays may be the fields: {}",
                         fmt::join(possible, ", ")),
             fmt::format("say which: -s data.array={}", possible.front()));
}

// Arrays beside the fields that have numbers at each node of each case.
void add_constants(const OpenFields& file, const std::string& array,
                   const std::vector<std::string>& axes,
                   const FieldChoices& choices, FieldContent& content) {
  const auto& all = file.reader->shapes();
  const auto expected = constant_shape(all.at(array), axes);
  std::vector<int64_t> roles{kCaseAxis};
  for (int64_t d = 0; d + 1 < std::ssize(expected); ++d) roles.push_back(d);
  for (const auto& [name, shape] : all) {
    if (name == array || !is_plain_text(name)) continue;
    const bool named = is_named(choices, name);
    if (!fits(shape, expected)) {
      if (!named) continue;
      fail_array(
          file.path,
          fmt::format("expected '{}' of shape {}, or with up to {} "
                      "channels behind, got {}",
                      name, text_of(expected), kMostChannels, text_of(shape)),
          "data.constants are of shape (cases, space…[, channels])");
    }
    const bool unclear = !is_constant(shape, all.at(array), axes);
    const bool looked_for =
        finds_constants(choices) || !choices.constants.empty();
    if (!named && (unclear || !looked_for)) {
      content.remarks.push_back(fmt::format(
          "{} is not read{} (data.constants names inputs)", name,
          unclear ? ", since it may be along time or along space" : ""));
      continue;
    }
    auto axes_here = roles;
    if (shape.size() > expected.size()) axes_here.push_back(kChannelAxis);
    const auto piece = file.piece(name, axes_here);
    const int64_t channels = piece.channels();
    for (int64_t c = 0; c < channels; ++c) {
      content.layout.channels.push_back(
          channels == 1 ? name : fmt::format("{}{}", name, c));
    }
    content.runs.front().pieces.push_back(piece);
  }
}

}  // namespace

std::vector<std::string> guessed_axes(const std::vector<int64_t>& shape) {
  if (shape.size() < 3 || shape.size() > 6) return {};
  const auto rest = shape.size() - 2;
  const bool channels =
      rest > 1 && shape.back() <= kMostChannels &&
      std::all_of(shape.begin() + 2, shape.end() - 1, [&](int64_t nodes) {
        return nodes > kMostChannels && nodes > shape.back();
      });
  const size_t space = channels ? rest - 1 : rest;
  if (space > kMostAxes) return {};
  std::vector<std::string> names{kCase, kTime};
  names.insert(names.end(), kSpace.begin(),
               kSpace.begin() + static_cast<std::ptrdiff_t>(space));
  if (channels) names.emplace_back(kChannel);
  return names;
}

NamedAxes named_axes(const std::string& path, const std::string& array,
                     const std::vector<int64_t>& shape,
                     const std::vector<std::string>& names, bool with_cases) {
  const auto what = plain_text(array) + " " + text_of(shape);
  if (names.empty()) {
    fail_array(path, fmt::format("cannot tell the axes of {}", what), kSayAxes);
  }
  if (names.size() != shape.size()) {
    fail_array(path,
               fmt::format("{} has {} axes, and data.axes names {}", what,
                           shape.size(), names.size()),
               kSayAxes);
  }
  if (std::ranges::find(shape, 0) != shape.end()) {
    fail_array(path, fmt::format("{} is empty: {}", array, text_of(shape)));
  }
  for (const auto& name : names) {
    if (std::ranges::count(names, name) < 2) continue;
    fail_array(path, fmt::format("data.axes has {} twice", plain_text(name)),
               kSayAxes);
  }
  const bool cases = std::ranges::count(names, kCase) > 0;
  if ((with_cases && !cases) || std::ranges::count(names, kTime) == 0) {
    fail_array(path,
               fmt::format("expected axes named {} and {}, got {}", kCase,
                           kTime, fmt::join(names, ", ")),
               kSayAxes);
  }
  NamedAxes axes;
  for (const auto& name : names) {
    const bool space = name != kCase && name != kTime && name != kChannel;
    axes.roles.push_back(name == kCase      ? kCaseAxis
                         : name == kTime    ? kTimeAxis
                         : name == kChannel ? kChannelAxis
                                            : std::ssize(axes.space));
    if (space) axes.space.push_back(name);
  }
  if (axes.space.empty() || axes.space.size() > kMostAxes) {
    fail_array(path,
               fmt::format("expected one to three axes of space, got {}",
                           axes.space.size()),
               kSayAxes);
  }
  return axes;
}

FieldContent read_any_array(const OpenFields& file,
                            const FieldChoices& choices) {
  const auto array = chosen_array(file, choices);
  const auto shape = file.reader->shape(array);
  const auto names = choices.axes.empty() ? guess(file, shape) : choices.axes;
  const auto axes = named_axes(file.path, array, shape, names, true);
  FieldContent content{.kind = choices.axes.empty()
                                   ? fmt::format("the array {}, whose axes are "
                                                 "guessed",
                                                 array)
                                   : fmt::format("the array {}", array),
                       .layout = {},
                       .runs = {},
                       .known = false};
  auto& layout = content.layout;
  const auto piece = file.piece(array, axes.roles);
  const auto size_of = [&](int64_t role) {
    const auto found = std::ranges::find(axes.roles, role);
    return shape[static_cast<size_t>(found - axes.roles.begin())];
  };
  const auto& all = file.reader->shapes();
  layout.times = torch::arange(size_of(kTimeAxis), torch::kFloat64);
  for (const auto& name : kTimes) {
    if (!all.contains(name) || name == array) continue;
    layout.times = line_of(file, name, layout.times.numel());
    break;
  }
  for (size_t d = 0; d < axes.space.size(); ++d) {
    const int64_t count = size_of(static_cast<int64_t>(d));
    const bool there = all.contains(axes.space[d]) && axes.space[d] != array;
    layout.axes.push_back({axes.space[d],
                           there ? line_of(file, axes.space[d], count)
                                 : torch::arange(count, torch::kFloat64),
                           Boundary::kOpen});
  }
  const int64_t channels = piece.channels();
  for (int64_t c = 0; c < channels; ++c) {
    layout.channels.push_back(channels == 1 ? "u" : fmt::format("u{}", c));
  }
  content.runs.push_back({size_of(kCaseAxis), {piece}});
  read_numbers(file, array, content);
  add_constants(file, array, names, choices, content);
  return content;
}

}  // namespace propagator::data
