#include <torch/utils.h>

#include <algorithm>

#include "propagator/core/error.h"
#include "propagator/core/progress.h"
#include "propagator/data/named_table.h"
#include "propagator/kernels/finite.h"
#include "propagator/tasks/described.h"
#include "propagator/tasks/forecast/forecast.h"
#include "propagator/tasks/forecast/plate_guard.h"
#include "propagator/tasks/joins_cases.h"
#include "propagator/tasks/writes_answers.h"

namespace propagator::tasks {
namespace {

using torch::Tensor;

// Some of an axis. The whole of it costs no operation of libtorch, each of
// which a call with one small case would feel.
Tensor some_of(const Tensor& all, int64_t axis, int64_t first, int64_t count) {
  if (first == 0 && count == all.size(axis)) return all;
  return all.narrow(axis, first, count);
}

// Continues plates from their first frames.
class ForecastSurrogate : public Surrogate,
                          public WritesAnswers,
                          public JoinsCases,
                          public Guarded,
                          public Described {
 public:
  ForecastSurrogate(std::shared_ptr<torch::nn::Module> model,
                    const models::FieldShape& shape, int64_t batch,
                    const Tensor& scale, std::optional<PlateGuard> guard,
                    const Runtime& runtime)
      : model_(std::move(model)),
        forecaster_(models::as_forecaster(*model_)),
        shape_(shape),
        batch_(batch),
        scale_(scale),
        guard_(std::move(guard)),
        runtime_(runtime),
        uses_alpha_(forecaster_.uses_alpha()) {
    model_->eval();
    const std::vector<int64_t> frames{-1, shape_.frames, shape_.rows,
                                      shape_.cols};
    outputs_ = with_alpha(
        {"fields", frames, "all frames, the given ones first"}, "as given");
    if (scale_.defined()) {
      outputs_.push_back(
          {"deviation", frames, "standard deviation of each node"});
    }
  }

  std::vector<Port> inputs() const override {
    auto ports =
        with_alpha({"fields",
                    {-1, -1, shape_.rows, shape_.cols},
                    fmt::format("cases and their first {} frames or more",
                                forecaster_.visible())},
                   "diffusivity of each case");
    if (!guard_) return ports;
    const auto& plate = guard_->plate();
    ports[0].range = {0, 1};
    if (uses_alpha_) ports[1].range = {plate.alpha_min, plate.alpha_max};
    return ports;
  }
  std::vector<Port> outputs() const override { return outputs_; }

  NamedTensors apply(const NamedTensors& inputs) const override {
    NamedTensors answers;
    for (const auto& [name, shape] : answer_shapes(inputs)) {
      answers[name] =
          torch::empty(shape, runtime_.options().device(torch::kCPU));
    }
    apply_into(inputs, answers);
    return answers;
  }

  std::map<std::string, std::vector<int64_t>> answer_shapes(
      const NamedTensors& inputs) const override {
    const int64_t cases = cases_of(inputs);
    std::map<std::string, std::vector<int64_t>> shapes;
    for (const auto& port : outputs_) shapes[port.name] = sizes_of(port, cases);
    return shapes;
  }

  void apply_into(const NamedTensors& inputs,
                  const NamedTensors& answers) const override {
    // Less work for libtorch than without gradients; nothing made here is kept.
    const c10::InferenceMode inference;
    const PrecisionScope scope(runtime_);
    const int64_t cases = cases_of(inputs);
    for (const auto& port : outputs_) {
      const auto place = answers.find(port.name);
      if (place == answers.end()) continue;
      expect_answer_shape(port.name, place->second, sizes_of(port, cases));
    }
    const auto alpha = uses_alpha_
                           ? for_model(data::tensor_named(inputs, "alpha"))
                           : torch::zeros({cases}, runtime_.options());
    if (uses_alpha_) expect_alpha(alpha, cases);
    Progress progress("predicting", cases * shape_.frames);
    for (int64_t n = 0; n < cases; n += batch_) {
      forecast(inputs.at("fields"), alpha, n, std::min(batch_, cases - n),
               answers, progress);
    }
    if (const auto place = answers.find("alpha"); place != answers.end()) {
      place->second.copy_(alpha);
    }
  }

  Guard guard(const NamedTensors& inputs,
              const NamedTensors& answers) const override {
    if (!guard_) return {};
    return guard_->guard(
        inputs.at("fields").narrow(1, 0, forecaster_.visible()),
        uses_alpha_ ? inputs.at("alpha") : Tensor(), answers.at("fields"));
  }

  // One step of the simulator adds alpha dt / dx^2 of the second difference.
  nlohmann::json details() const override {
    nlohmann::json all{{"given", forecaster_.visible()}};
    if (!guard_) return all;
    const auto& plate = guard_->plate();
    all["dx"] = plate.dx();
    all["dy"] = plate.dy();
    if (plate.time_step == physics::TimeStep::kFixed) {
      all["dt"] = plate.step(plate.alpha_max);
    } else {
      all["alpha_dt"] = plate.alpha_max * plate.step(plate.alpha_max);
    }
    return all;
  }

 private:
  Tensor for_model(const Tensor& values) const {
    const bool is_there = values.device() == runtime_.device &&
                          values.scalar_type() == runtime_.dtype();
    return is_there ? values : values.to(runtime_.options());
  }

  int64_t cases_of(const NamedTensors& inputs) const {
    const auto& given = data::tensor_named(inputs, "fields");
    expect_first_frames(given, shape_, forecaster_.visible());
    return given.size(0);
  }

  // Lengths that a port leaves open are of cases.
  static std::vector<int64_t> sizes_of(const Port& port, int64_t cases) {
    auto sizes = port.shape;
    std::ranges::replace(sizes, -1, cases);
    return sizes;
  }

  // Cases [n, n + count).
  void forecast(const Tensor& given, const Tensor& alpha, int64_t n,
                int64_t count, const NamedTensors& answers,
                Progress& progress) const {
    const auto cases = some_of(given, 0, n, count);
    const auto first = for_model(some_of(cases, 1, 0, forecaster_.visible()));
    expect_finite(first, n);
    const auto alphas = some_of(alpha, 0, n, count);
    const auto answer = forecaster_.predict(first, alphas, [&](int64_t frame) {
      progress.update(n * shape_.frames + frame * count);
    });
    if (!kernels::all_finite(answer)) {
      throw NumericalError(
          fmt::format("[predict] the forecast of cases {} to {} is not finite",
                      n, n + count - 1),
          "are the values like those the model was trained on?");
    }
    if (const auto place = answers.find("fields"); place != answers.end()) {
      some_of(place->second, 0, n, count).copy_(answer);
    }
    const auto deviation = answers.find("deviation");
    if (deviation == answers.end()) return;
    auto said = forecaster_.spread(first, alphas).deviation *
                scale_.to(runtime_.options()).view({1, -1, 1, 1});
    said.narrow(1, 0, forecaster_.visible()).zero_();
    deviation->second.narrow(0, n, count).copy_(said);
  }

  std::vector<Port> with_alpha(Port fields, const std::string& meaning) const {
    std::vector<Port> ports{std::move(fields)};
    if (uses_alpha_) ports.push_back({"alpha", {-1}, meaning});
    return ports;
  }

  static void expect_finite(const Tensor& frames, int64_t first) {
    try {
      data::check_finite(frames, first, "fields");
    } catch (const DataError& error) {
      throw UsageError(error.what(), error.hint());
    }
  }

  std::shared_ptr<torch::nn::Module> model_;
  models::Forecaster& forecaster_;
  models::FieldShape shape_;
  int64_t batch_;
  Tensor scale_;  // (T) of deviations; undefined where none are given
  std::optional<PlateGuard> guard_;  // of plates that are simulated
  Runtime runtime_;
  bool uses_alpha_;  // or was trained without
  std::vector<Port> outputs_;
};

}  // namespace

void expect_first_frames(const Tensor& fields, const models::FieldShape& shape,
                         int64_t visible) {
  const auto got = fields.sizes();
  if (got.size() == 4 && got[0] > 0 && got[1] >= visible &&
      got[2] == shape.rows && got[3] == shape.cols) {
    return;
  }
  throw UsageError(
      fmt::format("expected 'fields' of shape (N > 0, at least {}, {}, {}), "
                  "got ({})",
                  visible, shape.rows, shape.cols, fmt::join(got, ", ")),
      "the first axis is cases, the second time");
}

void expect_alpha(const Tensor& alpha, int64_t cases) {
  if (alpha.dim() != 1 || alpha.size(0) != cases) {
    throw UsageError(fmt::format("expected 'alpha' of shape ({}), got ({})",
                                 cases, fmt::join(alpha.sizes(), ", ")));
  }
  if (!kernels::all_positive(alpha)) {
    throw UsageError("expected every alpha to be positive");
  }
}

std::unique_ptr<Surrogate> Forecast::surrogate(
    std::shared_ptr<torch::nn::Module> model, const Runtime& runtime) const {
  // Those of an autoregressive model are known from drawn trajectories alone.
  Tensor scale;
  if (auto& forecaster = models::as_forecaster(*model);
      forecaster.predicts_variance() && !forecaster.autoregressive()) {
    const bool own = forecaster.members().size() == 1;
    scale = own && spread_ ? chosen_scale(*spread_, forecaster.visible())
                           : torch::ones({plate_.frames});
  }
  std::optional<PlateGuard> guard;
  if (data_options_.file.empty()) guard.emplace(plate_);
  return std::make_unique<ForecastSurrogate>(std::move(model), shape(),
                                             eval_options_.batch, scale,
                                             std::move(guard), runtime);
}

}  // namespace propagator::tasks
