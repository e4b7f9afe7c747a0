#include "propagator/tasks/initial_values.h"

#include <torch/utils.h>

#include <cmath>

#include "propagator/core/error.h"
#include "propagator/data/collocation.h"

namespace propagator::tasks {
namespace {

using autodiff::Condition;
using autodiff::Derivative;
using autodiff::Environment;
using autodiff::Jet;
using torch::Tensor;

// Points at which a condition is looked at to see what form it has.
constexpr int64_t kLooks = 5;
constexpr double kSame = 1e-9;

// What a condition leaves where its only derivative has this value.
Jet left_of(const Condition& condition, const std::vector<Jet>& variables,
            double value) {
  return condition.residual.evaluate(
      {variables, [&](const Derivative&) {
         return Jet::constant(
             torch::full({}, value, variables.front().rows().options()));
       }});
}

// The factor of the derivative in the residual, if that is constant and the
// residual is straight in it; else 0.
double factor_of(const autodiff::Problem& problem, const Condition& condition) {
  data::Box box;
  for (const auto& [low, high] : problem.domain) {
    box.low.push_back(low);
    box.high.push_back(high);
  }
  const auto variables =
      autodiff::coordinates(Jet::constant(data::cell_centres(box, kLooks)));
  const auto zero = left_of(condition, variables, 0).value();
  const auto one = left_of(condition, variables, 1).value() - zero;
  const auto two = left_of(condition, variables, 2).value() - zero;
  const double factor = one.flatten()[0].item<double>();
  const bool straight =
      ((one - factor).abs().max().item<double>() < kSame * std::abs(factor)) &&
      ((two - 2 * factor).abs().max().item<double>() <
       kSame * std::abs(factor));
  return straight ? factor : 0;
}

class WithInitialValues : public models::FieldNet {
 public:
  WithInitialValues(const autodiff::Problem& problem,
                    std::vector<InitialValues::OfField> fields,
                    std::shared_ptr<models::FieldNet> network)
      : problem_(problem),
        fields_(std::move(fields)),
        network_(register_module("network", std::move(network))) {}

  Jet forward(const Jet& points) override {
    const auto answer = network_->forward(points);
    const auto variables = autodiff::coordinates(points);
    const auto time = static_cast<size_t>(problem_.time());
    const auto& [first, last] = problem_.domain[time];
    const auto since = variables[time] - first;
    const auto share = since * (1 / (last - first));
    std::vector<Tensor> all;
    for (size_t f = 0; f < fields_.size(); ++f) {
      auto field = answer.linear([f](const Tensor& rows) {
        return rows.select(-1, static_cast<int64_t>(f));
      });
      const auto& values = fields_[f].by_order;
      for (size_t n = 0; n < values.size(); ++n) field = field * share;
      for (size_t n = 0; n < values.size(); ++n) {
        auto given = left_of(*values[n].condition, variables, 0) *
                     (-1 / values[n].factor);
        if (n == 1) given = given * since;
        field = field + given;
      }
      all.push_back(field.rows());
    }
    return Jet(torch::stack(all, -1), answer.layout());
  }

  void initialise(int64_t seed) override { network_->initialise(seed); }

 private:
  const autodiff::Problem& problem_;
  std::vector<InitialValues::OfField> fields_;
  std::shared_ptr<models::FieldNet> network_;
};

}  // namespace

InitialValues::InitialValues(const autodiff::Problem& problem)
    : problem_(&problem), fields_(problem.symbols.fields.size()) {
  const int64_t time = problem.time();
  for (const auto& condition : problem.conditions) {
    if (time < 0 || condition.variable != time ||
        condition.kind != Condition::Kind::kEquation ||
        condition.at != problem.domain[static_cast<size_t>(time)].low) {
      continue;
    }
    const auto refuse = [&](const std::string& why) {
      throw ConfigError(
          "initial",
          fmt::format("'{}' cannot be built in: {}", condition.text, why),
          "set initial=loss");
    };
    const auto derivatives = condition.residual.derivatives();
    if (derivatives.size() != 1) refuse("it has more than one derivative");
    const auto& derivative = *derivatives.begin();
    const int64_t order = derivative.orders[static_cast<size_t>(time)];
    if (derivative.order() != order || order > 1) {
      refuse("it is not of a field or its first derivative by time");
    }
    const double factor = factor_of(problem, condition);
    if (factor == 0) refuse("the field has no constant factor in it");
    auto& values = fields_[static_cast<size_t>(derivative.field)].by_order;
    const auto at = static_cast<size_t>(order);
    if (values.size() <= at) values.resize(at + 1);
    if (values[at].condition != nullptr) refuse("there are two of its kind");
    values[at] = {&condition, factor};
  }
  for (const auto& [values] : fields_) {
    if (values.size() == 2 && values[0].condition == nullptr) {
      throw ConfigError("initial",
                        fmt::format("'{}' cannot be built in without the "
                                    "field's own value",
                                    values[1].condition->text),
                        "set initial=loss");
    }
  }
}

bool InitialValues::has(const Condition& condition) const {
  for (const auto& [values] : fields_) {
    for (const auto& value : values) {
      if (value.condition == &condition) return true;
    }
  }
  return false;
}

std::shared_ptr<models::FieldNet> InitialValues::build_into(
    std::shared_ptr<models::FieldNet> network) const {
  return std::make_shared<WithInitialValues>(*problem_, fields_,
                                             std::move(network));
}

}  // namespace propagator::tasks
