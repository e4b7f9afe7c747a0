#include <fmt/ranges.h>

#include <filesystem>
#include <functional>

#include "propagator/core/error.h"
#include "propagator/data/fields/field_simulator.h"
#include "propagator/tasks/forecast/fields/field_forecast.h"

// What a configuration of a forecast of fields leaves out, and what it must not
// say together.

namespace propagator::tasks {
namespace {

constexpr double kLeastShare = 1e-3;  // of the cases, to train on

// ConfigError names the key and what is nearest unless the file has them all;
// `what` they are: "channel".
void expect_in_file(const std::string& key, const char* what,
                    const std::vector<std::string>& names,
                    const std::vector<std::string>& known) {
  for (const auto& name : names) {
    if (std::ranges::count(known, name) > 0) continue;
    throw ConfigError(
        key, fmt::format("the file has no {} {}", what, name),
        config::did_you_mean(
            name, known,
            known.empty() ? "it has none"
                          : fmt::format("it has {}", fmt::join(known, ", "))));
  }
}

}  // namespace

void FieldForecast::validate() {
  auto& d = data_options_;
  const auto simulated = simulated_files();
  if (!simulated.empty()) {
    expect_simulated(simulated[0], "data", "data/blobs.h5");
  }
  if (d.shares().train < kLeastShare) {
    throw ConfigError("data.validation",
                      fmt::format("shares of {} to validate with and {} to "
                                  "test on leave nothing to train on",
                                  d.validation, d.shares().test));
  }
  const auto layout_of = [&](size_t n, const std::string& file) {
    if (std::filesystem::exists(file)) {
      return std::make_optional(data::FieldSource(file, d.choices).layout());
    }
    return n < simulated.size()
               ? data::simulated_layout(d.simulator, simulated[n].settings)
               : std::nullopt;
  };
  int64_t later = 0;  // frames of a test, where there is a file
  if (const auto layout = layout_of(0, d.file)) {
    take_layout(*layout);
    const auto tested =
        d.test_file.empty() ? layout : layout_of(1, d.test_file);
    if (!tested) {
      throw ConfigError("data.test_file",
                        fmt::format("there is no file {}", d.test_file));
    }
    expect_alike(*tested);
    later = tested->times.numel() - d.given;
  } else if (d.choices.channels.empty() || d.choices.boundaries.empty()) {
    throw ConfigError("data.file",
                      d.file.empty()
                          ? std::string("expected a file of fields")
                          : fmt::format("there is no file {}", d.file),
                      "name an .h5, .npz or .mat with an array of cases, time "
                      "and space");
  }
  settle_frames(later);
  std::vector<int64_t> nodes;
  for (const auto& axis : layout_.axes) nodes.push_back(axis.at.numel());
  expect_symmetry(nodes);
  model_options_->settle(shape(), nodes);
}

void FieldForecast::expect_symmetry(const std::vector<int64_t>& nodes) const {
  if (data_options_.symmetry == FieldSymmetry::kNone) return;
  if (!data_options_.told().empty()) {
    throw ConfigError("data.symmetry",
                      fmt::format("a case from another side may have another "
                                  "{}, which the model is told",
                                  data_options_.told().front()),
                      "tell it nothing: data.parameters: [none]");
  }
  const bool equal =
      std::ranges::adjacent_find(nodes, std::not_equal_to<>()) == nodes.end();
  if (data_options_.symmetry == FieldSymmetry::kMirrors || equal) return;
  throw ConfigError(
      "data.symmetry",
      fmt::format("axes of {} nodes cannot be swapped", fmt::join(nodes, ", ")),
      "mirrors leaves them in their order");
}

void FieldForecast::settle_frames(int64_t later) {
  loss_options_.frames = std::max<int64_t>(loss_options_.frames, 1);
  auto& steps = eval_options_.steps;
  const int64_t block = this->block();
  if (steps == 0) steps = block > 0 ? std::min(later, block) : later;
  if (block == 0 || steps <= block) return;
  throw ConfigError(
      "eval.steps",
      fmt::format("a model with model.mask=block forecasts the {} frames that "
                  "it is trained to answer, got {}",
                  block, steps),
      "loss.frames says how many; model.mask=causal forecasts any number");
}

void FieldForecast::take_layout(const data::FieldLayout& layout) {
  auto& d = data_options_;
  layout_ = layout;
  d.choices.channels = layout.channels;
  if (!layout.constants.empty()) d.choices.constants = layout.constants;
  d.choices.boundaries.clear();
  for (const auto& axis : layout.axes) {
    d.choices.boundaries.push_back(config::name_of(axis.boundary));
  }
  if (d.parameters == std::vector<std::string>{kAllOfThem}) {
    d.parameters = layout.parameters;
  }
  if (d.parameters.empty()) d.parameters = {kNoneOfThem};
  expect_in_file("data.parameters", "numbers", d.told(), layout.parameters);
  const auto& conserved = eval_options_.conserved;
  if (conserved != std::vector<std::string>{kNoneOfThem}) {
    expect_in_file("eval.conserved", "channel", conserved, layout.channels);
  }
  const int64_t frames = layout.times.numel();
  auto& trained = loss_options_.frames;
  if (trained == 0 && model_options_->mask() == nn::MaskType::kBlock) {
    trained = frames - d.given;
  }
  trained = std::max<int64_t>(trained, 1);
  if (window() > frames) {
    throw ConfigError(
        "data.given",
        fmt::format("{} frames given and {} to forecast are more than the {} "
                    "that cases have",
                    d.given, loss_options_.frames, frames));
  }
}

void FieldForecast::expect_alike(const data::FieldLayout& test) const {
  const auto nodes = [](const data::FieldLayout& layout) {
    std::vector<int64_t> all;
    for (const auto& axis : layout.axes) all.push_back(axis.at.numel());
    return all;
  };
  const auto what = [&](const data::FieldLayout& layout) {
    auto told = layout.parameters;
    told.insert(told.end(), layout.constants.begin(), layout.constants.end());
    return fmt::format("{} on {} nodes, told {}",
                       fmt::join(layout.channels, ", "),
                       fmt::join(nodes(layout), " x "), fmt::join(told, ", "));
  };
  const bool same = test.channels == layout_.channels &&
                    nodes(test) == nodes(layout_) &&
                    test.parameters == layout_.parameters &&
                    test.constants == layout_.constants;
  if (!same) {
    throw DataError(fmt::format("{} has {}, but {} has {}",
                                data_options_.test_file, what(test),
                                data_options_.file, what(layout_)));
  }
  const int64_t frames = test.times.numel();
  if (frames > data_options_.given) return;
  throw DataError(fmt::format("{} has {} frames, but {} are given",
                              data_options_.test_file, frames,
                              data_options_.given));
}

std::vector<config::UnusedOption> FieldForecast::unused_options() const {
  auto unused = model_options_->unused_options();
  if (model_options_->mask() == nn::MaskType::kBlock) {
    unused.push_back(
        {"loss.inputs",
         "a model with model.mask=block is never fed its own frames"});
  }
  return unused;
}

}  // namespace propagator::tasks
