#include "propagator/data/fields/field_source.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "propagator/core/error.h"
#include "propagator/core/plain_text.h"

namespace propagator::data {
namespace {

using torch::Tensor;

constexpr const char* kCase = "case";
constexpr const char* kTime = "time";
constexpr const char* kChannel = "channel";
constexpr size_t kMostAxes = 3;
constexpr int64_t kMostChannels = 8;  // that are guessed
const std::vector<std::string> kSpace{"x", "y", "z"};

// How far the ends of a periodic axis differ, over how far neighbours do.
constexpr double kLeastOfPeriodic = 0.2, kMostOfPeriodic = 1.5;
constexpr double kFixed = 1e-3;  // of the spread of what is inside
constexpr int64_t kCasesToGuess = 8;

std::string text_of(const std::vector<int64_t>& shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
}

// Names of the axes of an array of that shape; none if it may be several.
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
  s.field("boundaries", boundaries,
          {.help = "periodic, wall or open for each axis of space, or one for "
                   "all; empty: as the file says, or as its ends look"});
}

FieldSource::FieldSource(const std::filesystem::path& path,
                         const FieldChoices& choices)
    : path_(path.string()), reader_(TensorReader::open(path)) {
  if (FieldReader::is_field_file(*reader_) && choices.array.empty() &&
      choices.axes.empty()) {
    const FieldReader file(path);
    layout_ = file.layout();
    parameters_ = file.parameters();
    array_ = "fields";
    shape_ = reader_->shape(array_);
    has_channels_ = true;
    order_.resize(shape_.size());
    std::iota(order_.begin(), order_.end(), 0);
  } else {
    read_array(choices);
  }
  if (!choices.channels.empty()) {
    if (std::ssize(choices.channels) != shape_.back()) {
      throw ConfigError("data.channels",
                        fmt::format("expected {} names, got {}", shape_.back(),
                                    choices.channels.size()));
    }
    layout_.channels = choices.channels;
  }
  if (!choices.boundaries.empty()) set_boundaries(choices.boundaries);
}

void FieldSource::fail(const std::string& what, const std::string& hint) const {
  throw DataError(fmt::format("{}: {}", path_, what), hint);
}

void FieldSource::read_array(const FieldChoices& choices) {
  guessed_ = choices.axes.empty();
  choose_array(choices.array);
  name_axes(choices.axes);
  read_beside();
  if (choices.boundaries.empty()) {
    for (int64_t d = 0; d < std::ssize(layout_.axes); ++d) {
      layout_.axes[static_cast<size_t>(d)].boundary = guess_boundary(d);
    }
  }
}

void FieldSource::choose_array(const std::string& wanted) {
  const auto all = reader_->shapes();
  if (!wanted.empty()) {
    reader_->shape(wanted);  // DataError if it is not there
    array_ = wanted;
    return;
  }
  std::vector<std::string> possible;
  for (const auto& [name, shape] : all) {
    if (shape.size() >= 3 && is_plain_text(name)) possible.push_back(name);
  }
  if (std::ranges::count(possible, "fields") > 0) possible = {"fields"};
  if (possible.size() == 1) {
    array_ = possible.front();
    return;
  }
  if (possible.empty()) {
    fail("expected an array of three axes or more: cases, time, space",
         "`propagator data info` prints what a file has");
  }
  fail(fmt::format("several arrays may be the fields: {}",
                   fmt::join(possible, ", ")),
       fmt::format("say which: -s data.array={}", possible.front()));
}

void FieldSource::name_axes(const std::vector<std::string>& wanted) {
  const auto shape = reader_->shape(array_);
  const auto names = wanted.empty() ? guessed_axes(shape) : wanted;
  const char* hint =
      "say what its axes are, as -s data.axes=[case, time, x, y, channel]";
  if (names.empty()) {
    fail(fmt::format("cannot tell the axes of {} {}", array_, text_of(shape)),
         hint);
  }
  if (names.size() != shape.size()) {
    fail(fmt::format("{} {} has {} axes, and data.axes names {}", array_,
                     text_of(shape), shape.size(), names.size()),
         hint);
  }
  if (std::ranges::find(shape, 0) != shape.end()) {
    fail(fmt::format("{} is empty: {}", array_, text_of(shape)));
  }
  const auto place = [&](const std::string& name) -> int64_t {
    if (std::ranges::count(names, name) > 1) {
      fail(fmt::format("data.axes has {} twice", plain_text(name)), hint);
    }
    const auto found = std::ranges::find(names, name);
    return found == names.end() ? -1 : found - names.begin();
  };
  order_ = {place(kCase), place(kTime)};
  if (order_[0] < 0 || order_[1] < 0) {
    fail(fmt::format("expected axes named {} and {}, got {}", kCase, kTime,
                     fmt::join(names, ", ")),
         hint);
  }
  layout_.times =
      torch::arange(shape[static_cast<size_t>(order_[1])], torch::kFloat64);
  for (const auto& name : names) {
    if (name == kCase || name == kTime || name == kChannel) continue;
    order_.push_back(place(name));
    layout_.axes.push_back(
        {name,
         torch::arange(shape[static_cast<size_t>(order_.back())],
                       torch::kFloat64),
         Boundary::kOpen});
  }
  if (layout_.axes.empty() || layout_.axes.size() > kMostAxes) {
    fail(fmt::format("expected one to three axes of space, got {}",
                     layout_.axes.size()),
         hint);
  }
  const int64_t channels = place(kChannel);
  has_channels_ = channels >= 0;
  if (has_channels_) order_.push_back(channels);
  for (const int64_t axis : order_) {
    shape_.push_back(shape[static_cast<size_t>(axis)]);
  }
  if (!has_channels_) shape_.push_back(1);
  for (int64_t c = 0; c < shape_.back(); ++c) {
    layout_.channels.push_back(shape_.back() == 1 ? "u"
                                                  : fmt::format("u{}", c));
  }
  if (order_[0] != 0) loaded_ = in_order(reader_->all(array_));
}

Tensor FieldSource::places(const std::string& name, int64_t count) const {
  const auto at = reader_->all(name).to(torch::kFloat64).flatten();
  if (at.numel() != count) {
    fail(fmt::format("expected {} numbers in '{}', got {}", count, name,
                     at.numel()));
  }
  if (!torch::isfinite(at).all().item<bool>() ||
      (count > 1 && !(at.diff() > 0).all().item<bool>())) {
    fail(fmt::format("expected '{}' to rise", name));
  }
  return at;
}

// Times, places, and numbers of each case.
void FieldSource::read_beside() {
  const auto all = reader_->shapes();
  for (const auto* name : {"t", "time", "times"}) {
    if (all.contains(name) && name != array_) {
      layout_.times = places(name, shape_[1]);
      break;
    }
  }
  for (auto& axis : layout_.axes) {
    if (!all.contains(axis.name) || axis.name == array_) continue;
    axis.at = places(axis.name, axis.at.numel());
  }
  std::vector<Tensor> numbers;
  for (const auto& [name, shape] : all) {
    const bool taken =
        name == array_ || name == "t" || name == "time" || name == "times" ||
        std::ranges::any_of(
            layout_.axes, [&](const auto& axis) { return axis.name == name; });
    if (taken || !is_plain_text(name)) continue;
    if (shape != std::vector<int64_t>{cases()}) continue;
    const auto each = reader_->all(name).to(torch::kFloat64);
    if (!torch::isfinite(each).all().item<bool>()) {
      fail(fmt::format("some of '{}' are not finite", name));
    }
    layout_.parameters.push_back(name);
    numbers.push_back(each);
  }
  if (!numbers.empty()) parameters_ = torch::stack(numbers, 1);
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

// An end that is fixed beside an inside that moves is a wall; ends that differ
// as neighbours do belong together.
Boundary FieldSource::guess_boundary(int64_t axis) const {
  const auto some = values(0, std::min(kCasesToGuess, cases()));
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

// Axes in our order, with one of channels.
Tensor FieldSource::in_order(const Tensor& rows) const {
  const auto ordered = rows.permute(order_);
  return has_channels_ ? ordered : ordered.unsqueeze(-1);
}

std::vector<int64_t> FieldSource::nodes() const {
  return {shape_.begin() + 2, shape_.end() - 1};
}

Tensor FieldSource::values(int64_t begin, int64_t count) const {
  if (begin < 0 || count < 0 || begin > cases() - count) {
    throw UsageError(
        fmt::format("[fields] expected cases of 0 … {}, got {} … "
                    "{}",
                    cases() - 1, begin, begin + count - 1));
  }
  const auto some = loaded_.defined()
                        ? loaded_.narrow(0, begin, count)
                        : in_order(reader_->rows(array_, begin, count));
  const auto numbers = some.to(torch::kFloat32).contiguous();
  if (!torch::isfinite(numbers).all().item<bool>()) {
    const auto bad = torch::logical_not(torch::isfinite(numbers)).nonzero()[0];
    fail(fmt::format("case {}, frame {} has a number that is not finite",
                     begin + bad[0].item<int64_t>(), bad[1].item<int64_t>()));
  }
  return numbers;
}

std::string FieldSource::describe() const {
  std::vector<std::string> axes;
  for (const auto& axis : layout_.axes) {
    axes.push_back(fmt::format("{} {} ({})", axis.at.numel(), axis.name,
                               config::name_of(axis.boundary)));
  }
  return fmt::format(
      "{}: {} cases of {} frames on {}; channels {}{}{}", path_, cases(),
      layout_.times.numel(), fmt::join(axes, " x "),
      fmt::join(layout_.channels, ", "),
      layout_.parameters.empty()
          ? std::string()
          : fmt::format("; numbers of each case {}",
                        fmt::join(layout_.parameters, ", ")),
      guessed_ ? " (guessed; data.axes, data.boundaries say otherwise)" : "");
}

}  // namespace propagator::data
