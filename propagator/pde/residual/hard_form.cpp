#include "propagator/pde/residual/hard_form.h"

#include <torch/utils.h>

#include <algorithm>

#include "propagator/pde/residual/problem_box.h"

namespace propagator::pde {
namespace {

using torch::Tensor;

// Along each variable, at random: a sine is zero at points of many a grid.
constexpr int64_t kFaceLooks = 9;
constexpr double kAgree = 1e-9;   // of two values on one edge
constexpr double kIsMet = 1e-12;  // rounding of formulas alone

std::vector<Jet> with_constant(std::vector<Jet> variables, int64_t variable,
                               double value) {
  auto& one = variables[static_cast<size_t>(variable)];
  one = Jet::constant(torch::full_like(one.value(), value));
  return variables;
}

double largest_of(const Tensor& of) { return of.abs().max().item<double>(); }

}  // namespace

Jet HardForm::first_values(const std::vector<Jet>& variables) const {
  const auto& any = variables.front();
  if (initial_.empty()) return Jet::constant(torch::zeros_like(any.value()));
  const double first = time_.interval.low;
  // Time in a formula of an initial condition means the first.
  const auto then = with_constant(variables, time_.variable, first);
  const auto value = initial_[0].at(then);
  if (initial_.size() == 1 || initial_[1].is_zero()) return value;
  const auto since = variables[static_cast<size_t>(time_.variable)] - first;
  return value + initial_[1].at(then) * since;
}

Jet HardForm::missing(const std::vector<Jet>& variables, size_t axes,
                      int64_t variable, double end,
                      const ConditionValue& value) const {
  const auto there = with_constant(variables, variable, end);
  return value.at(there) - values(there, axes);
}

Jet HardForm::values(const std::vector<Jet>& variables, size_t axes) const {
  if (axes == 0) return first_values(variables);
  const auto& axis = axes_[axes - 1];
  auto sum = values(variables, axes - 1);
  const auto& [low, high] = axis.interval;
  const auto add = [&](const std::optional<ConditionValue>& value, bool is_met,
                       double end, double other) {
    if (!value || is_met) return;
    const auto part = missing(variables, axes - 1, axis.variable, end, *value);
    const bool alone = !axis.low || !axis.high;
    sum = alone ? sum + part
                : sum + part * ((variables[static_cast<size_t>(axis.variable)] -
                                 other) *
                                (1 / (end - other)));
  };
  add(axis.low, axis.low_is_met, low, high);
  add(axis.high, axis.high_is_met, high, low);
  return sum;
}

Jet HardForm::distance(const std::vector<Jet>& variables, const Interval& time,
                       int64_t order) const {
  auto product = Jet::constant(torch::ones_like(variables.front().value()));
  const auto share = [&](int64_t variable, const Interval& interval) {
    return (variables[static_cast<size_t>(variable)] - interval.low) *
           (1 / (interval.high - interval.low));
  };
  for (int64_t n = 0; n < order; ++n) {
    product = product * share(time_.variable, time);
  }
  for (const auto& axis : axes_) {
    const auto s = share(axis.variable, axis.interval);
    const auto left = -s + 1.0;
    product = product * (axis.low && axis.high ? 4.0 * (s * left)
                         : axis.low            ? s
                                               : left);
  }
  return product;
}

bool HardForm::add_face(const Problem& problem, int64_t variable, double at,
                        const ConditionValue& value) {
  const bool again = !axes_.empty() && axes_.back().variable == variable;
  const size_t before = axes_.size() - (again ? 1 : 0);
  auto on_face = sample(box_of(problem), Sampling::kUniform, kFaceLooks,
                        /*seed=*/0, /*name=*/"hard form");
  on_face.select(1, variable).fill_(at);
  const auto missing_at = [&](const Tensor& points,
                              const autodiff::JetLayout& layout,
                              const Tensor& directions) {
    return missing(
        autodiff::coordinates(Jet::moving(points, directions, layout)), before,
        variable, at, value);
  };
  const auto options = on_face.options();
  const auto still = torch::zeros({0, on_face.size(1)}, options);
  const auto gap = missing_at(on_face, autodiff::JetLayout(), still).value();
  const double scale =
      1 + largest_of(
              value.at(autodiff::coordinates(Jet::constant(on_face))).value());
  if (!initial_.empty()) {
    auto first = on_face.clone();
    first.select(1, time_.variable).fill_(time_.interval.low);
    auto forward = torch::zeros({1, on_face.size(1)}, options);
    forward.select(1, time_.variable).fill_(1);
    const auto moving = missing_at(first, autodiff::JetLayout({1}), forward);
    const auto rows =
        moving.is_constant()
            ? moving.rows()
            : moving.rows().narrow(0, 0,
                                   std::min<int64_t>(std::ssize(initial_), 2));
    if (largest_of(rows) > kAgree * scale) return false;
  }
  for (size_t n = 0; n < before; ++n) {
    for (const auto& [end, given] :
         {std::pair(axes_[n].interval.low, axes_[n].low.has_value()),
          std::pair(axes_[n].interval.high, axes_[n].high.has_value())}) {
      if (!given) continue;
      auto edge = on_face.clone();
      edge.select(1, axes_[n].variable).fill_(end);
      if (largest_of(missing_at(edge, autodiff::JetLayout(), still).value()) >
          kAgree * scale) {
        return false;
      }
    }
  }
  const auto& interval = problem.domain[static_cast<size_t>(variable)];
  if (!again) axes_.push_back({variable, interval});
  auto& axis = axes_.back();
  const bool low = at == interval.low;
  (low ? axis.low : axis.high) = value;
  (low ? axis.low_is_met : axis.high_is_met) =
      largest_of(gap) <= kIsMet * scale;
  return true;
}

}  // namespace propagator::pde
