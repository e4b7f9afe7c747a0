#include "propagator/models/field_forecaster.h"

#include <fmt/format.h>
#include <torch/utils.h>

namespace propagator::models {
namespace {

using torch::Tensor;

// A channel that is the same everywhere is not scaled up to be seen.
constexpr double kLeastDeviation = 1e-12;

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

}  // namespace

Told Told::part(int64_t begin, int64_t count) const {
  return {numbers.narrow(0, begin, count),
          constants.defined() ? constants.narrow(0, begin, count) : Tensor()};
}

Told Told::repeated(int64_t count) const {
  const auto each = [&](const Tensor& of) {
    if (!of.defined()) return of;
    auto sizes = of.sizes().vec();
    sizes[0] = count;
    return of.expand(sizes);
  };
  return {each(numbers), each(constants)};
}

FieldForecaster::FieldForecaster(std::shared_ptr<FrameNet> net, Answer answer,
                                 int64_t parameters, int64_t constants)
    : net_(register_module("net", std::move(net))), answer_(answer) {
  // Parameters that are not trained: those are what a checkpoint holds.
  const auto unit = [&](const char* name, Tensor value) {
    return register_parameter(name, std::move(value), false);
  };
  const int64_t channels = shape().channels, block = shape().block;
  mean_ = unit("mean", torch::zeros({channels}));
  deviation_ = unit("deviation", torch::ones({channels}));
  change_ = unit("change", block > 0 ? torch::ones({block, channels})
                                     : torch::ones({channels}));
  parameter_mean_ = unit("parameter_mean", torch::zeros({parameters}));
  parameter_deviation_ = unit("parameter_deviation", torch::ones({parameters}));
  if (constants == 0) return;  // as in older checkpoints
  constant_mean_ = unit("constant_mean", torch::zeros({constants}));
  constant_deviation_ = unit("constant_deviation", torch::ones({constants}));
}

void FieldForecaster::calibrate(const std::function<CaseFrames()>& next,
                                const Tensor& parameters) {
  const torch::NoGradGuard no_grad;
  const int64_t ahead = std::max<int64_t>(shape().block, 1);
  const int64_t first = shape().block > 0 ? shape().given - 1 : 0;
  Moments fields, constants;
  std::vector<Moments> changes(static_cast<size_t>(ahead));
  for (auto cases = next(); cases.frames.defined(); cases = next()) {
    const auto& frames = cases.frames;
    fields.add(frames);
    if (cases.constants.defined()) constants.add(cases.constants);
    const int64_t steps = frames.size(1) - first - ahead;
    for (int64_t n = 0; n < ahead && steps > 0; ++n) {
      changes[static_cast<size_t>(n)].add(
          frames.narrow(1, first + n + 1, steps) -
          frames.narrow(1, first, steps));
    }
  }
  mean_.copy_(fields.mean());
  deviation_.copy_(fields.deviation());
  std::vector<Tensor> each;
  for (const auto& change : changes) each.push_back(change.root_mean_square());
  change_.copy_(torch::stack(each).view(change_.sizes()));
  if (constant_mean_.defined()) {
    constant_mean_.copy_(constants.mean());
    constant_deviation_.copy_(constants.deviation());
  }
  if (parameter_mean_.size(0) == 0) return;
  Moments numbers;
  numbers.add(parameters);
  parameter_mean_.copy_(numbers.mean());
  parameter_deviation_.copy_(numbers.deviation());
}

void FieldForecaster::expect_answers(int64_t answers) const {
  if (shape().block == 0 || answers <= shape().block) return;
  throw std::invalid_argument(
      fmt::format("[forecast] expected {} frames or fewer, as the network was "
                  "made to answer at once, got {}",
                  shape().block, answers));
}

Tensor FieldForecaster::change_scale(int64_t answers) const {
  if (shape().block == 0) return change_;
  std::vector<int64_t> sizes(static_cast<size_t>(shape().axes()) + 2, 1);
  sizes.front() = answers;
  sizes.back() = shape().channels;
  return change_.narrow(0, 0, answers).view(sizes);
}

Tensor FieldForecaster::answer_scale(int64_t answers) const {
  return answer_ == Answer::kChange ? change_scale(answers) : deviation_;
}

Tensor FieldForecaster::scaled(const Tensor& frames) const {
  return (frames - mean_) / deviation_;
}

Tensor FieldForecaster::conditions(const Told& told,
                                   const Tensor& frame) const {
  std::vector<Tensor> parts;
  if (parameter_mean_.size(0) > 0) {
    auto everywhere = frame.sizes().vec();  // (B, nodes…, C)
    std::vector<int64_t> alone(everywhere.size(), 1);
    alone.front() = everywhere.front();
    alone.back() = everywhere.back() = parameter_mean_.size(0);
    const auto unit = (told.numbers - parameter_mean_) / parameter_deviation_;
    parts.push_back(unit.view(alone).expand(everywhere));
  }
  if (constant_mean_.defined()) {
    parts.push_back((told.constants - constant_mean_) / constant_deviation_);
  }
  if (parts.empty()) return {};
  return parts.size() == 1 ? parts[0] : torch::cat(parts, -1);
}

Tensor FieldForecaster::next(const Tensor& frames,
                             const Tensor& answers) const {
  return answer_ == Answer::kChange
             ? frames + change_scale(answers.size(1)) * answers
             : mean_ + deviation_ * answers;
}

Tensor FieldForecaster::forward(const Tensor& frames, const Told& told) {
  const int64_t last = shape().given - 1, answered = frames.size(1) - last;
  expect_answers(answered);
  const auto answers =
      net_->forward(scaled(frames), conditions(told, frames.select(1, 0)));
  return next(frames.narrow(1, last, shape().block > 0 ? 1 : answered),
              answers);
}

Tensor FieldForecaster::one_step(const Tensor& frames, const Told& told) {
  if (shape().block == 0) return forward(frames, told);
  const int64_t given = shape().given;
  std::vector<Tensor> all;
  for (int64_t n = 0; n + given <= frames.size(1); ++n) {
    all.push_back(forward(frames.narrow(1, n, given), told));
  }
  return torch::cat(all, 1);
}

Tensor FieldForecaster::rollout(const Tensor& given, const Told& told,
                                int64_t steps,
                                const std::function<void(int64_t)>& progress) {
  auto frame = given.narrow(1, given.size(1) - 1, 1);
  const auto known = conditions(told, frame.select(1, 0));
  if (shape().block > 0) {
    expect_answers(steps);
    const auto all = next(frame, net_->later(scaled(given), known, steps));
    if (progress) progress(steps);
    return all;
  }
  const auto rollout = net_->begin(known);
  auto answer = rollout->append(scaled(given));
  std::vector<Tensor> frames;
  for (int64_t n = 0; n < steps; ++n) {
    if (n > 0) answer = rollout->append(scaled(frame));
    frame = next(frame, answer.unsqueeze(1));
    frames.push_back(frame);
    if (progress) progress(n + 1);
  }
  return torch::cat(frames, 1);
}

}  // namespace propagator::models
