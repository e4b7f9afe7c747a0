#include "propagator/models/field_forecaster.h"

#include <fmt/ranges.h>
#include <torch/utils.h>

#include <cmath>

#include "propagator/core/error.h"
#include "propagator/nn/grid_conv.h"
#include "propagator/nn/init.h"

namespace propagator::models {
namespace {

using torch::Tensor;

// A channel that is the same everywhere is not scaled up to be seen.
constexpr double kLeastDeviation = 1e-12;

// Only the last frames count.
class WindowRollout : public FrameRollout {
 public:
  WindowRollout(FrameNet& net, Tensor conditions)
      : net_(net), conditions_(std::move(conditions)) {}

  Tensor append(const Tensor& frames) override {
    const int64_t given = net_.shape().given;
    const auto all = kept_.defined() ? torch::cat({kept_, frames}, 1) : frames;
    kept_ = all.narrow(1, all.size(1) - given, given);
    return net_.forward(kept_, conditions_).select(1, 0);
  }

 private:
  FrameNet& net_;
  Tensor conditions_, kept_;
};

// Of numbers that come in parts, channel by channel, in float64.
class Moments {
 public:
  void add(const Tensor& values) {  // (…, C)
    const auto flat = values.flatten(0, -2).to(torch::kFloat64);
    count_ += flat.size(0);
    sum_ = sum_ + flat.sum(0);
    squares_ = squares_ + flat.square().sum(0);
  }
  Tensor mean() const { return sum_ / count_; }
  Tensor deviation() const {
    return safe((squares_ / count_) - mean().square());
  }
  Tensor root_mean_square() const { return safe(squares_ / count_); }

 private:
  static Tensor safe(const Tensor& variance) {
    const auto root = variance.clamp_min(0).sqrt();
    return torch::where(root > kLeastDeviation, root, torch::ones_like(root));
  }

  int64_t count_ = 0;
  Tensor sum_ = torch::zeros({}, torch::kFloat64);
  Tensor squares_ = torch::zeros({}, torch::kFloat64);
};

// Of each node along the axes that are not periodic, from -1 to 1: (nodes…, K).
Tensor places_on(const FrameShape& shape, const Tensor& like) {
  std::vector<int64_t> nodes;
  for (int64_t d = 0; d < shape.axes(); ++d) {
    nodes.push_back(like.size(like.dim() - 1 - shape.axes() + d));
  }
  std::vector<Tensor> all;
  for (int64_t d = 0; d < shape.axes(); ++d) {
    if (shape.periodic[static_cast<size_t>(d)]) continue;
    std::vector<int64_t> alone(nodes.size(), 1);
    alone[static_cast<size_t>(d)] = nodes[static_cast<size_t>(d)];
    all.push_back(
        torch::linspace(-1, 1, alone[static_cast<size_t>(d)], like.options())
            .view(alone)
            .expand(nodes));
  }
  if (all.empty()) return {};
  return torch::stack(all, -1);
}

}  // namespace

int64_t known_numbers(const FrameShape& shape) {
  return shape.conditions + std::ranges::count(shape.periodic, false);
}

Tensor with_known(const Tensor& fields, const Tensor& conditions,
                  const FrameShape& shape) {
  std::vector<Tensor> parts{fields};
  auto each = fields.sizes().vec();
  const auto add = [&](const Tensor& known) {
    each.back() = known.size(-1);
    parts.push_back(known.expand(each));
  };
  if (conditions.defined() && conditions.size(-1) > 0) {
    add(conditions.unsqueeze(1));
  }
  if (const auto places = places_on(shape, fields); places.defined()) {
    add(places);
  }
  return torch::cat(parts, -1);
}

void check_reach(int64_t reach, const std::vector<int64_t>& nodes) {
  for (const int64_t n : nodes) {
    if (n >= 2 * reach + 1) continue;
    throw ConfigError(
        "model.reach",
        fmt::format("an axis of {} nodes has room for a reach of {}, got {}", n,
                    (n - 1) / 2, reach));
  }
}

std::unique_ptr<FrameRollout> FrameNet::begin(const Tensor& conditions) {
  return std::make_unique<WindowRollout>(*this, conditions);
}

void FrameNet::initialise(int64_t seed) {
  nn::initialise(*this, seed);
  const torch::NoGradGuard no_grad;
  for (const auto& module : modules()) {
    auto* layer = module->as<nn::GridConvImpl>();
    if (layer == nullptr) continue;
    // It counts the channels of a node, and a convolution sees several.
    const double scale = 1 / std::sqrt(static_cast<double>(layer->seen()));
    for (auto& parameter : layer->parameters()) parameter.mul_(scale);
  }
}

int64_t FrameNet::answers_to(const Tensor& frames) const {
  const int64_t answers = frames.size(1) - shape_.given + 1;
  if (answers >= 1) return answers;
  throw std::invalid_argument(
      fmt::format("[forecast] expected {} frames or more, got ({})",
                  shape_.given, fmt::join(frames.sizes(), ", ")));
}

int64_t WindowNet::inputs_of(const FrameShape& shape) {
  return shape.given * shape.channels + known_numbers(shape);
}

Tensor WindowNet::forward(const Tensor& frames, const Tensor& conditions) {
  const int64_t windows = answers_to(frames);
  std::vector<Tensor> all;
  for (int64_t n = 0; n < shape().given; ++n) {
    all.push_back(frames.narrow(1, n, windows));
  }
  const auto inputs = with_known(torch::cat(all, -1), conditions, shape());
  auto apart = frames.sizes().vec();
  apart[1] = windows;
  return answer(inputs.flatten(0, 1)).view(apart);
}

FieldForecaster::FieldForecaster(std::shared_ptr<FrameNet> net, Answer answer,
                                 int64_t parameters)
    : net_(register_module("net", std::move(net))), answer_(answer) {
  // Parameters that are not trained: those are what a checkpoint holds.
  const int64_t channels = shape().channels;
  mean_ = register_parameter("mean", torch::zeros({channels}), false);
  deviation_ = register_parameter("deviation", torch::ones({channels}), false);
  change_ = register_parameter("change", torch::ones({channels}), false);
  parameter_mean_ =
      register_parameter("parameter_mean", torch::zeros({parameters}), false);
  parameter_deviation_ = register_parameter("parameter_deviation",
                                            torch::ones({parameters}), false);
}

void FieldForecaster::calibrate(const std::function<Tensor()>& next,
                                const Tensor& parameters) {
  const torch::NoGradGuard no_grad;
  Moments fields, changes;
  for (auto frames = next(); frames.defined(); frames = next()) {
    fields.add(frames);
    const int64_t steps = frames.size(1) - 1;
    if (steps > 0) {
      changes.add(frames.narrow(1, 1, steps) - frames.narrow(1, 0, steps));
    }
  }
  mean_.copy_(fields.mean());
  deviation_.copy_(fields.deviation());
  change_.copy_(changes.root_mean_square());
  if (parameter_mean_.size(0) == 0) return;
  Moments numbers;
  numbers.add(parameters);
  parameter_mean_.copy_(numbers.mean());
  parameter_deviation_.copy_(numbers.deviation());
}

Tensor FieldForecaster::answer_scale() const {
  return answer_ == Answer::kChange ? change_ : deviation_;
}

Tensor FieldForecaster::scaled(const Tensor& frames) const {
  return (frames - mean_) / deviation_;
}

Tensor FieldForecaster::conditions(const Tensor& parameters,
                                   const Tensor& frame) const {
  if (parameter_mean_.size(0) == 0) return {};
  auto everywhere = frame.sizes().vec();  // (B, nodes…, C)
  std::vector<int64_t> alone(everywhere.size(), 1);
  alone.front() = everywhere.front();
  alone.back() = everywhere.back() = parameter_mean_.size(0);
  const auto unit = (parameters - parameter_mean_) / parameter_deviation_;
  return unit.view(alone).expand(everywhere);
}

Tensor FieldForecaster::next(const Tensor& frames,
                             const Tensor& answers) const {
  return answer_ == Answer::kChange ? frames + change_ * answers
                                    : mean_ + deviation_ * answers;
}

Tensor FieldForecaster::forward(const Tensor& frames,
                                const Tensor& parameters) {
  const auto answers = net_->forward(
      scaled(frames), conditions(parameters, frames.select(1, 0)));
  const int64_t last = shape().given - 1;
  return next(frames.narrow(1, last, frames.size(1) - last), answers);
}

Tensor FieldForecaster::rollout(const Tensor& given, const Tensor& parameters,
                                int64_t steps,
                                const std::function<void(int64_t)>& progress) {
  auto frame = given.select(1, given.size(1) - 1);
  const auto rollout = net_->begin(conditions(parameters, frame));
  auto answer = rollout->append(scaled(given));
  std::vector<Tensor> frames;
  for (int64_t n = 0; n < steps; ++n) {
    if (n > 0) answer = rollout->append(scaled(frame).unsqueeze(1));
    frame = next(frame, answer);
    frames.push_back(frame);
    if (progress) progress(n + 1);
  }
  return torch::stack(frames, 1);
}

}  // namespace propagator::models
