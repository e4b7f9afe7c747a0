#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/core/progress.h"
#include "propagator/data/named_table.h"
#include "propagator/tasks/forecast/fields/field_forecast.h"

namespace propagator::tasks {
namespace {

using torch::Tensor;

// Continues fields from their first frames by as many as cases of training had.
class FieldSurrogate : public Surrogate {
 public:
  FieldSurrogate(std::shared_ptr<torch::nn::Module> model, int64_t steps,
                 int64_t batch, std::vector<std::string> parameters,
                 const Runtime& runtime)
      : model_(std::move(model)),
        forecaster_(models::as_field_forecaster(*model_)),
        steps_(steps),
        batch_(batch),
        parameters_(std::move(parameters)),
        runtime_(runtime) {
    model_->eval();
  }

  std::vector<Port> inputs() const override {
    return ports(fmt::format("cases and their first {} frames or more",
                             forecaster_.shape().given),
                 "number of each case");
  }
  std::vector<Port> outputs() const override {
    return ports("all frames, the given ones first", "as given");
  }

  NamedTensors apply(const NamedTensors& inputs) const override {
    const torch::NoGradGuard no_grad;
    const PrecisionScope scope(runtime_);
    const auto given = data::tensor_named(inputs, "fields");
    expect_frames(given);
    const int64_t cases = given.size(0), first = forecaster_.shape().given;
    const auto numbers = numbers_of(inputs, cases);
    NamedTensors answers;
    auto shape = given.sizes().vec();
    shape[1] = first + steps_;
    auto fields = torch::empty(shape, runtime_.options().device(torch::kCPU));
    Progress progress("predicting", cases * steps_);
    for (int64_t n = 0; n < cases; n += batch_) {
      const int64_t count = std::min(batch_, cases - n);
      const auto known =
          given.narrow(0, n, count).narrow(1, 0, first).to(runtime_.options());
      const auto answer = forecaster_.rollout(
          known, numbers.narrow(0, n, count), steps_,
          [&](int64_t frame) { progress.update(n * steps_ + frame * count); });
      if (!torch::isfinite(answer).all().item<bool>()) {
        throw NumericalError(
            fmt::format("[predict] the forecast of cases {} to {} is not "
                        "finite",
                        n, n + count - 1),
            "are the values like those the model was trained on?");
      }
      auto place = fields.narrow(0, n, count);
      place.narrow(1, 0, first).copy_(known);
      place.narrow(1, first, steps_).copy_(answer);
    }
    answers["fields"] = fields;
    for (const auto& name : parameters_) {
      answers[name] = data::tensor_named(inputs, name);
    }
    return answers;
  }

 private:
  std::vector<Port> ports(const std::string& meaning,
                          const std::string& number) const {
    const auto& shape = forecaster_.shape();
    std::vector<int64_t> sizes(static_cast<size_t>(shape.axes()) + 2, -1);
    sizes.push_back(shape.channels);
    std::vector<Port> all{{"fields", sizes, meaning}};
    for (const auto& name : parameters_) all.push_back({name, {-1}, number});
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
    if (!torch::isfinite(fields).all().item<bool>()) {
      throw UsageError("some of 'fields' are not finite");
    }
  }

  Tensor numbers_of(const NamedTensors& inputs, int64_t cases) const {
    std::vector<Tensor> columns;
    for (const auto& name : parameters_) {
      const auto& each = data::tensor_named(inputs, name);
      if (each.dim() != 1 || each.size(0) != cases ||
          !torch::isfinite(each).all().item<bool>()) {
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

  std::shared_ptr<torch::nn::Module> model_;
  models::FieldForecaster& forecaster_;
  int64_t steps_, batch_;
  std::vector<std::string> parameters_;
  Runtime runtime_;
};

}  // namespace

std::unique_ptr<Surrogate> FieldForecast::surrogate(
    std::shared_ptr<torch::nn::Module> model, const Runtime& runtime) const {
  return std::make_unique<FieldSurrogate>(std::move(model), eval_options_.steps,
                                          eval_options_.batch,
                                          data_options_.told(), runtime);
}

}  // namespace propagator::tasks
