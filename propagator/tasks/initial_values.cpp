#include "propagator/tasks/initial_values.h"

#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "propagator/tasks/problem_box.h"

namespace propagator::tasks {
namespace {

using autodiff::Condition;
using autodiff::Derivative;
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
  const auto variables = autodiff::coordinates(
      Jet::constant(data::cell_centres(box_of(problem), kLooks)));
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
                    std::vector<InitialValues::ByOrder> fields,
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
    const auto networks = answer.rows().unbind(-1);
    for (size_t f = 0; f < fields_.size(); ++f) {
      Jet field(networks[f], answer.layout());
      const auto& values = fields_[f];
      if (!values.empty()) {
        // What has no gradient is put together first.
        const auto factor = values.size() == 1 ? share : share * share;
        field = field * factor + given(values, variables, since);
      }
      all.push_back(field.rows());
    }
    return Jet(torch::stack(all, -1), answer.layout());
  }

  void initialise(int64_t seed) override { network_->initialise(seed); }

 private:
  // f + (t - t₀) g
  static Jet given(const InitialValues::ByOrder& values,
                   const std::vector<Jet>& variables, const Jet& since) {
    const auto value = [&](size_t order) {
      return values[order].rest.evaluate({variables, {}}) *
             (-1 / values[order].factor);
    };
    const bool moves =
        values.size() > 1 && values[1].rest.constant().value_or(1) != 0;
    return moves ? value(0) + value(1) * since : value(0);
  }

  const autodiff::Problem& problem_;
  std::vector<InitialValues::ByOrder> fields_;
  std::shared_ptr<models::FieldNet> network_;
};

}  // namespace

InitialValues::InitialValues(const autodiff::Problem& problem)
    : problem_(&problem), fields_(problem.symbols.fields.size()) {
  const int64_t time = problem.time();
  if (time < 0) return;
  std::set<int64_t> others;  // fields with conditions of another form
  for (const auto& condition : problem.conditions) {
    if (condition.variable != time || condition.is_periodic() ||
        condition.at != problem.domain[static_cast<size_t>(time)].low) {
      continue;
    }
    const auto derivatives = condition.derivatives();
    const auto& derivative = *derivatives.begin();
    const int64_t order = derivative.orders[static_cast<size_t>(time)];
    auto& values = fields_[static_cast<size_t>(derivative.field)];
    const double factor =
        derivatives.size() == 1 && order <= 1 && derivative.order() == order
            ? factor_of(problem, condition)
            : 0;
    const auto at = static_cast<size_t>(order);
    if (factor != 0 && values.size() <= at) values.resize(at + 1);
    if (factor == 0 || values[at].condition != nullptr) {
      for (const auto& one : derivatives) others.insert(one.field);
      continue;
    }
    values[at] = {&condition, factor, condition.residual.without(derivatives)};
  }
  for (int64_t f = 0; f < std::ssize(fields_); ++f) {
    auto& values = fields_[static_cast<size_t>(f)];
    if (others.contains(f) ||
        (!values.empty() && values.front().condition == nullptr)) {
      values.clear();
    }
  }
}

bool InitialValues::has(const Condition& condition) const {
  for (const auto& values : fields_) {
    for (const auto& value : values) {
      if (value.condition == &condition) return true;
    }
  }
  return false;
}

std::shared_ptr<models::FieldNet> InitialValues::build_into(
    std::shared_ptr<models::FieldNet> network) const {
  const auto none = [](const ByOrder& values) { return values.empty(); };
  if (std::ranges::all_of(fields_, none)) return network;
  return std::make_shared<WithInitialValues>(*problem_, fields_,
                                             std::move(network));
}

}  // namespace propagator::tasks
