#include "propagator/pde/residual/initial_conditions.h"

#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "propagator/pde/residual/problem_box.h"

namespace propagator::pde {
namespace {

using pde::Condition;
using torch::Tensor;

// Points at which a condition is looked at to see what form it has.
constexpr int64_t kLooks = 5;
constexpr double kSame = 1e-9;
// And at which the size of what is under a root, relative to its largest.
constexpr int64_t kFineLooks = 41;
constexpr double kNearZero = 1e-3;

// What a condition leaves where its only derivative has this value.
Jet left_of(const Condition& condition, const std::vector<Jet>& variables,
            double value) {
  return condition.residual.evaluate(
      {variables, [&](const Derivative&) {
         return Jet::constant(
             torch::full({}, value, variables.front().rows().options()));
       }});
}

// Points of the domain at its first time.
Tensor at_first(const pde::Problem& problem, Tensor points) {
  const int64_t time = problem.time();
  points.select(1, time).fill_(problem.domain[static_cast<size_t>(time)].low);
  return points;
}

// The factor of the derivative in the residual, if that is constant and the
// residual is straight in it; else 0.
double factor_of(const pde::Problem& problem, const Condition& condition) {
  const auto variables = autodiff::coordinates(Jet::constant(
      at_first(problem, pde::cell_centres(box_of(problem), kLooks))));
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

// Whether a formula has all derivatives that the problem names, everywhere at
// the first time.
bool has_derivatives(const pde::Problem& problem,
                     const pde::Expression& formula) {
  const autodiff::DerivativePlan plan(problem.all_derivatives(),
                                      std::ssize(problem.domain));
  const auto points = at_first(
      problem, pde::sample(box_of(problem), pde::Sampling::kGrid, kLooks,
                           /*seed=*/0, /*name=*/""));
  const auto jets = formula.evaluate(
      {autodiff::coordinates(Jet::moving(
           points, plan.directions(points.options()), plan.layout())),
       {}});
  return torch::isfinite(jets.rows()).all().item<bool>();
}

// Whether a formula for a field is the same at both ends of a periodic
// condition, with the derivatives that it matches.
bool is_periodic(const pde::Problem& problem, const Condition& condition,
                 const pde::Expression& formula, int64_t field) {
  const auto& [low, high] =
      problem.domain[static_cast<size_t>(condition.variable)];
  const auto points =
      at_first(problem, pde::cell_centres(box_of(problem), kLooks));
  const auto value_at = [&](const pde::Expression& of, double end) {
    const auto moved = points.clone();
    moved.select(1, condition.variable).fill_(end);
    return of.evaluate({autodiff::coordinates(Jet::constant(moved)), {}})
        .value();
  };
  for (const auto& matched : condition.matched) {
    if (matched.field != field) continue;
    auto derivative = formula;
    for (int64_t x = 0; x < std::ssize(problem.domain); ++x) {
      for (int64_t k = 0; k < matched.orders[static_cast<size_t>(x)]; ++k) {
        derivative = derivative.derivative(x);
      }
    }
    const auto here = value_at(derivative, low);
    const double apart =
        (value_at(derivative, high) - here).abs().max().item<double>();
    if (!(apart <= kSame * (1 + here.abs().max().item<double>()))) return false;
  }
  return true;
}

// Whether a formula takes a root of what comes to zero, or close to it, at the
// first time: sqrt(x^2) has a corner too.
bool has_root_of_zero(const pde::Problem& problem,
                      const pde::Expression& formula) {
  const auto variables = autodiff::coordinates(Jet::constant(at_first(
      problem, pde::sample(box_of(problem), pde::Sampling::kGrid, kFineLooks,
                           /*seed=*/0, /*name=*/""))));
  return std::ranges::any_of(
      formula.under_roots(), [&](const pde::Expression& radicand) {
        const auto size = radicand.evaluate({variables, {}}).value().abs();
        return !(size.min() > kNearZero * size.max()).item<bool>();
      });
}

// Whether an answer that has the formula of a field's initial condition, or of
// its first derivative by time, for ever has it without a corner. Equations see
// none: it lies between points.
bool stays_smooth(const pde::Problem& problem, const pde::Expression& formula,
                  int64_t field) {
  return !formula.has_corners() && !has_root_of_zero(problem, formula) &&
         std::ranges::all_of(problem.conditions, [&](const Condition& c) {
           return !c.is_periodic() || is_periodic(problem, c, formula, field);
         });
}

// What a condition with one derivative gives that, if it does so by a formula
// that the answer may keep.
std::optional<HardInitialConditions::Value> given_by(
    const pde::Problem& problem, const Condition& condition,
    bool with_corners) {
  const double factor = factor_of(problem, condition);
  if (factor == 0) return std::nullopt;
  const auto derivatives = condition.derivatives();
  const auto rest = condition.residual.without(derivatives);
  const bool may_be_kept =
      has_derivatives(problem, rest) &&
      (with_corners || stays_smooth(problem, rest, derivatives.begin()->field));
  if (!may_be_kept) return std::nullopt;
  return HardInitialConditions::Value{factor, rest};
}

// Whether a condition holds at the first time of a problem.
bool holds_at_first(const pde::Problem& problem, const Condition& condition) {
  const int64_t time = problem.time();
  return condition.variable == time && !condition.is_periodic() &&
         condition.at == problem.domain[static_cast<size_t>(time)].low;
}

// It owns all that it needs of the problem: a model may outlive its task.
class WithInitialConditions : public autodiff::FieldNet {
 public:
  WithInitialConditions(HardInitialConditions::Time time,
                        std::vector<HardInitialConditions::ByOrder> fields,
                        std::shared_ptr<autodiff::FieldNet> network)
      : time_(time),
        fields_(std::move(fields)),
        network_(register_module("network", std::move(network))) {}

  Jet forward(const Jet& points) override {
    const auto answer = network_->forward(points);
    auto variables = autodiff::coordinates(points);
    const auto time = static_cast<size_t>(time_.variable);
    const auto& [first, last] = time_.interval;
    const auto since = variables[time] - first;
    const auto share = since * (1 / (last - first));
    // Time in a formula of an initial condition means the first.
    variables[time] =
        Jet::constant(torch::full_like(variables[time].value(), first));
    std::vector<Tensor> all;
    const auto networks = answer.rows().unbind(-1);
    for (size_t f = 0; f < networks.size(); ++f) {
      Jet field(networks[f], answer.layout());
      // What a network answers beside the fields has no such conditions.
      if (f < fields_.size() && !fields_[f].empty()) {
        const auto& values = fields_[f];
        // What has no gradient is put together first.
        const auto factor = values.size() == 1 ? share : share * share;
        field = field * factor + given(values, variables, since);
      }
      all.push_back(field.rows());
    }
    return Jet(torch::stack(all, -1), answer.layout());
  }

  void initialise(int64_t seed) override { network_->initialise(seed); }
  void observe(const autodiff::Observations& read) override {
    network_->observe(read);
  }
  std::shared_ptr<void> hold() override { return network_->hold(); }
  torch::Tensor unknowns() const override { return network_->unknowns(); }

 private:
  // f + (t - t₀) g
  static Jet given(const HardInitialConditions::ByOrder& values,
                   const std::vector<Jet>& variables, const Jet& since) {
    const auto value = [&](size_t order) {
      return values[order].rest.evaluate({variables, {}}) *
             (-1 / values[order].factor);
    };
    const bool moves =
        values.size() > 1 && values[1].rest.constant().value_or(1) != 0;
    return moves ? value(0) + value(1) * since : value(0);
  }

  HardInitialConditions::Time time_;
  std::vector<HardInitialConditions::ByOrder> fields_;
  std::shared_ptr<autodiff::FieldNet> network_;
};

}  // namespace

HardInitialConditions::HardInitialConditions(const pde::Problem& problem,
                                             bool with_corners)
    : fields_(problem.symbols.fields.size()) {
  const int64_t time = problem.time();
  const bool time_is_periodic =
      std::ranges::any_of(problem.conditions, [&](const Condition& c) {
        return c.is_periodic() && c.variable == time;
      });
  if (time < 0 || time_is_periodic) return;
  time_ = {time, problem.domain[static_cast<size_t>(time)]};
  // Of each field by order, none where no condition gives it.
  struct Given {
    const Condition* condition = nullptr;
    Value value = {};
  };
  std::vector<std::vector<Given>> fields(fields_.size());
  std::set<int64_t> others;  // fields with conditions of another form
  for (const auto& condition : problem.conditions) {
    if (!holds_at_first(problem, condition)) continue;
    const auto derivatives = condition.derivatives();
    const auto& derivative = *derivatives.begin();
    const int64_t order = derivative.orders[static_cast<size_t>(time)];
    auto& values = fields[static_cast<size_t>(derivative.field)];
    const auto given =
        derivatives.size() == 1 && order <= 1 && derivative.order() == order
            ? given_by(problem, condition, with_corners)
            : std::nullopt;
    const auto at = static_cast<size_t>(order);
    if (given && values.size() <= at) values.resize(at + 1);
    if (!given || values[at].condition != nullptr) {
      for (const auto& one : derivatives) others.insert(one.field);
      continue;
    }
    values[at] = {&condition, *given};
  }
  for (size_t f = 0; f < fields.size(); ++f) {
    const auto& values = fields[f];
    if (others.contains(static_cast<int64_t>(f)) || values.empty() ||
        values.front().condition == nullptr) {
      continue;
    }
    for (const auto& [condition, value] : values) {
      met_.push_back(*condition);
      fields_[f].push_back(value);
    }
  }
}

bool HardInitialConditions::has(const Condition& condition) const {
  return std::ranges::find(met_, condition) != met_.end();
}

std::shared_ptr<autodiff::FieldNet> HardInitialConditions::build_into(
    std::shared_ptr<autodiff::FieldNet> network) const {
  if (met_.empty()) return network;
  return std::make_shared<WithInitialConditions>(time_, fields_,
                                                 std::move(network));
}

}  // namespace propagator::pde
