#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/core/progress.h"
#include "propagator/data/named_table.h"
#include "propagator/kernels/finite.h"
#include "propagator/tasks/described.h"
#include "propagator/tasks/forecast/fields/field_forecast.h"
#include "propagator/tasks/forecast/fields/replayed_rollout.h"
#include "propagator/tasks/joins_cases.h"
#include "propagator/tasks/writes_answers.h"

namespace propagator::tasks {
namespace {

using torch::Tensor;

// Continues fields from their first frames by as many as cases of training had.
class FieldSurrogate : public Surrogate,
                       public WritesAnswers,
                       public JoinsCases,
                       public Described {
 public:
  FieldSurrogate(std::shared_ptr<torch::nn::Module> model,
                 const data::FieldLayout& layout, int64_t steps, int64_t batch,
                 std::vector<std::string> parameters,
                 std::vector<std::string> constants, const Runtime& runtime)
      : model_(std::move(model)),
        forecaster_(models::as_field_forecaster(*model_)),
        rollout_(forecaster_, runtime),
        layout_(layout),
        steps_(steps),
        batch_(batch),
        parameters_(std::move(parameters)),
        constants_(std::move(constants)),
        runtime_(runtime) {
    model_->eval();
  }

  std::vector<Port> inputs() const override {
    return ports(fmt::format("cases and their first {} frames or more",
                             forecaster_.shape().given),
                 "number of each case", "constant input at each node");
  }
  std::vector<Port> outputs() const override {
    return ports("all frames, the given ones first", "as given", "as given");
  }

  std::map<std::string, std::vector<int64_t>> answer_shapes(
      const NamedTensors& inputs) const override {
    std::map<std::string, std::vector<int64_t>> shapes{
        {"fields", shape_of_answer(inputs)}};
    for (const auto* names : {&parameters_, &constants_}) {
      for (const auto& name : *names) {
        shapes[name] = data::tensor_named(inputs, name).sizes().vec();
      }
    }
    return shapes;
  }

  NamedTensors apply(const NamedTensors& inputs) const override {
    NamedTensors answers{
        {"fields", torch::empty(shape_of_answer(inputs),
                                runtime_.options().device(torch::kCPU))}};
    apply_into(inputs, answers);
    for (const auto& name : parameters_) {
      answers[name] = data::tensor_named(inputs, name);
    }
    for (const auto& name : constants_) {
      answers[name] = data::tensor_named(inputs, name).to(torch::kCPU);
    }
    return answers;
  }

  void apply_into(const NamedTensors& inputs,
                  const NamedTensors& answers) const override {
    // Less work for libtorch than without gradients; nothing made here is kept.
    const c10::InferenceMode inference;
    const PrecisionScope scope(runtime_);
    const auto shape = shape_of_answer(inputs);
    const auto place = answers.find("fields");
    const auto fields = place != answers.end() ? place->second : Tensor();
    if (fields.defined()) expect_answer_shape("fields", fields, shape);
    const auto& given = inputs.at("fields");
    const models::Told told{numbers_of(inputs, shape[0]),
                            constants_of(inputs, given)};
    const auto give_back = [&](const std::string& name) {
      const auto found = answers.find(name);
      if (found == answers.end()) return;
      const auto& known = data::tensor_named(inputs, name);
      expect_answer_shape(name, found->second, known.sizes().vec());
      found->second.copy_(known);
    };
    std::ranges::for_each(parameters_, give_back);
    std::ranges::for_each(constants_, give_back);
    if (fields.defined()) forecast(given, told, fields);
  }

  // Fields of training: their frames, their axes, and of what size they are.
  nlohmann::json details() const override {
    auto axes = nlohmann::json::array();
    for (const auto& axis : layout_.axes) {
      if (!axis.at.defined()) continue;
      axes.push_back({{"name", axis.name},
                      {"nodes", axis.at.size(0)},
                      {"first", axis.at[0].item<double>()},
                      {"last", axis.at[-1].item<double>()}});
    }
    return {{"given", forecaster_.shape().given},
            {"axes", axes},
            {"channels", layout_.channels},
            {"mean", numbers_in(forecaster_.mean())},
            {"deviation", numbers_in(forecaster_.deviation())},
            {"parameter_mean", numbers_in(forecaster_.parameter_mean())}};
  }

 private:
  static std::vector<double> numbers_in(const Tensor& values) {
    const auto all = values.to(torch::kCPU, torch::kFloat64).contiguous();
    return {all.data_ptr<double>(), all.data_ptr<double>() + all.numel()};
  }

  std::vector<int64_t> shape_of_answer(const NamedTensors& inputs) const {
    const auto& given = data::tensor_named(inputs, "fields");
    expect_frames(given);
    auto shape = given.sizes().vec();
    shape[1] = forecaster_.shape().given + steps_;
    return shape;
  }

  void forecast(const Tensor& given, const models::Told& told,
                const Tensor& fields) const {
    const int64_t cases = given.size(0), first = forecaster_.shape().given;
    Progress progress("predicting", cases * steps_);
    for (int64_t n = 0; n < cases; n += batch_) {
      const int64_t count = std::min(batch_, cases - n);
      const auto known =
          given.narrow(0, n, count).narrow(1, 0, first).to(runtime_.options());
      const auto answer = rollout_(
          known, told.part(n, count), steps_,
          [&](int64_t frame) { progress.update(n * steps_ + frame * count); });
      if (!kernels::all_finite(answer)) {
        throw NumericalError(
            fmt::format("[predict] the forecast of cases {} to {} is not "
                        "finite",
                        n, n + count - 1),
            "are the values like those the model was trained on?");
      }
      const auto part = fields.narrow(0, n, count);
      part.narrow(1, 0, first).copy_(known);
      part.narrow(1, first, steps_).copy_(answer);
    }
  }

  std::vector<Port> ports(const std::string& meaning, const std::string& number,
                          const std::string& constant) const {
    const auto& shape = forecaster_.shape();
    std::vector<int64_t> sizes(static_cast<size_t>(shape.axes()) + 2, -1);
    sizes.push_back(shape.channels);
    std::vector<Port> all{{"fields", sizes, meaning}};
    for (const auto& name : parameters_) all.push_back({name, {-1}, number});
    sizes.pop_back();
    sizes.pop_back();
    for (const auto& name : constants_) {
      all.push_back({name, sizes, constant});
    }
    return all;
  }

  void expect_frames(const Tensor& fields) const {
    const auto& shape = forecaster_.shape();
    const bool fits = fields.dim() == shape.axes() + 3 && fields.size(0) > 0 &&
                      fields.size(1) >= shape.given &&
                      fields.size(-1) == shape.channels;
    if (!fits) {
      throw UsageError(
          fmt::format("expected 'fields' of shape (cases, at least {} frames, "
                      "{} axes of space, {} channels), got ({})",
                      shape.given, shape.axes(), shape.channels,
                      fmt::join(fields.sizes(), ", ")));
    }
    // Later frames are not looked at.
    if (!kernels::all_finite(fields.narrow(1, 0, shape.given))) {
      throw UsageError("some of 'fields' are not finite");
    }
  }

  Tensor numbers_of(const NamedTensors& inputs, int64_t cases) const {
    std::vector<Tensor> columns;
    for (const auto& name : parameters_) {
      const auto& each = data::tensor_named(inputs, name);
      if (each.dim() != 1 || each.size(0) != cases ||
          !kernels::all_finite(each)) {
        throw UsageError(
            fmt::format("expected {} finite numbers in '{}', got "
                        "({})",
                        cases, name, fmt::join(each.sizes(), ", ")));
      }
      columns.push_back(each.to(runtime_.options()));
    }
    return columns.empty() ? torch::zeros({cases, 0}, runtime_.options())
                           : torch::stack(columns, 1);
  }

  // At each node of the fields (N, T, nodes…, C): (N, nodes…, K).
  Tensor constants_of(const NamedTensors& inputs, const Tensor& fields) const {
    auto expected = fields.sizes().vec();
    expected.erase(expected.begin() + 1);
    expected.pop_back();
    std::vector<Tensor> all;
    for (const auto& name : constants_) {
      auto one = data::tensor_named(inputs, name);
      if (one.dim() == std::ssize(expected) + 1 && one.size(-1) == 1) {
        one = one.squeeze(-1);
      }
      if (one.sizes() != expected) {
        throw UsageError(fmt::format(
            "expected '{}' of shape ({}), a number at each node of each case, "
            "got ({})",
            name, fmt::join(expected, ", "), fmt::join(one.sizes(), ", ")));
      }
      if (!kernels::all_finite(one)) {
        throw UsageError(fmt::format("some of '{}' are not finite", name));
      }
      all.push_back(one.to(runtime_.options()));
    }
    return all.empty() ? Tensor() : torch::stack(all, -1);
  }

  std::shared_ptr<torch::nn::Module> model_;
  models::FieldForecaster& forecaster_;
  mutable ReplayedRollout rollout_;
  data::FieldLayout layout_;  // of training, as far as it is known here
  int64_t steps_, batch_;
  std::vector<std::string> parameters_, constants_;
  Runtime runtime_;
};

}  // namespace

std::unique_ptr<Surrogate> FieldForecast::surrogate(
    std::shared_ptr<torch::nn::Module> model, const Runtime& runtime) const {
  return surrogate(std::move(model), runtime, eval_options_.steps);
}

std::unique_ptr<Surrogate> FieldForecast::surrogate(
    std::shared_ptr<torch::nn::Module> model, const Runtime& runtime,
    int64_t steps) const {
  return std::make_unique<FieldSurrogate>(
      std::move(model), layout_, steps, eval_options_.batch,
      data_options_.told(), data_options_.constants(), runtime);
}

}  // namespace propagator::tasks
