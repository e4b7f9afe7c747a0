#include "propagator/pde/residual/problem_scale.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "propagator/core/error.h"
#include "propagator/pde/residual/problem_points.h"

namespace propagator::pde {
namespace {

using torch::Tensor;

// Points along a variable; not in steps that waves may share.
constexpr int64_t kScaleLooks = 9;
constexpr auto kScaleSampling = Sampling::kLatinHypercube;

// What is near 1: places from the origin, half an interval, fields, residuals.
constexpr double kFarOff = 30, kShort = 0.05;
constexpr double kLarge = 30, kSmall = 0.03;
constexpr double kLoud = 1e3, kFaint = 1e-3;

bool is_between(double low, double value, double high) {
  return low <= value && value <= high;
}

// The size of a derivative: that of its field over lengths.
double size_of(const Derivative& derivative, const std::vector<double>& fields,
               const std::vector<double>& lengths) {
  double size = fields[static_cast<size_t>(derivative.field)];
  for (size_t x = 0; x < lengths.size(); ++x) {
    size /= std::pow(lengths[x], derivative.orders[x]);
  }
  return size;
}

bool names(const Expression& formula, int64_t field) {
  const auto all = formula.derivatives();
  return std::ranges::any_of(
      all, [&](const Derivative& d) { return d.field == field; });
}

// A formula where fields are as large as that, at points (N, D).
struct Sizes {
  std::vector<Jet> variables;
  const std::vector<double>& fields;
  const std::vector<double>& lengths;

  // Its root mean square; 0 if it has none there.
  double size_of(const Expression& formula) const {
    const auto value =
        formula
            .evaluate({variables,
                       [&](const Derivative& d) {
                         const double size = pde::size_of(d, fields, lengths);
                         return Jet::constant(
                             torch::full({}, size, torch::kFloat64));
                       }})
            .value();
    const double size = value.square().mean().sqrt().item<double>();
    return std::isfinite(size) ? size : 0;
  }
  // Of the largest of its terms, among those that are asked for.
  template <class Asked>
  double largest_term(const Expression& residual, Asked&& asked) const {
    double largest = 0;
    for (const auto& term : residual.terms()) {
      if (asked(term)) largest = std::max(largest, size_of(term));
    }
    return largest;
  }
  double largest_term(const Expression& residual) const {
    return largest_term(residual, [](const Expression&) { return true; });
  }
};

std::vector<Jet> inside(const Problem& problem) {
  return autodiff::coordinates(Jet::constant(points_inside(
      problem, kScaleSampling, kScaleLooks, /*seed=*/0, "scale")));
}

std::vector<Jet> on(const Problem& problem, const Condition& condition) {
  return autodiff::coordinates(
      Jet::constant(points_on(problem, condition, kScaleSampling, kScaleLooks,
                              /*seed=*/0, "scale")
                        .variables()));
}

// How large conditions that name one field alone make it.
void size_by_conditions(const Problem& problem,
                        const std::vector<double>& lengths,
                        std::vector<double>& fields) {
  const std::vector<double> ones(fields.size(), 1);
  for (const auto& condition : problem.conditions) {
    if (condition.is_periodic()) continue;
    const auto all = condition.derivatives();
    if (all.empty()) continue;
    const int64_t field = all.begin()->field;
    if (std::ranges::any_of(
            all, [&](const Derivative& d) { return d.field != field; })) {
      continue;
    }
    const Sizes sizes{on(problem, condition), ones, lengths};
    const auto has_field = [&](const Expression& term) {
      return names(term, field);
    };
    const double of_one = sizes.largest_term(condition.residual, has_field);
    const double given =
        sizes.largest_term(condition.residual, std::not_fn(has_field));
    auto& size = fields[static_cast<size_t>(field)];
    if (of_one > 0) size = std::max(size, given / of_one);
  }
}

// The length over which a formula changes along each variable, if that is the
// shorter one.
std::vector<double> wavelengths(const Problem& problem,
                                const Expression& formula, const Sizes& sizes) {
  auto lengths = sizes.lengths;
  const double size = sizes.size_of(formula);
  for (size_t x = 0; x < problem.domain.size(); ++x) {
    try {
      const double slope =
          sizes.size_of(formula.derivative(static_cast<int64_t>(x)));
      if (slope > 0) lengths[x] = std::min(lengths[x], size / slope);
    } catch (const UsageError&) {
      // A formula without that derivative says nothing of its length.
    }
  }
  return lengths;
}

// How large the other terms of an equation, as large as they are known to be,
// make a field; 0: they do not.
double size_by_equation(const Problem& problem, const Expression& equation,
                        const Sizes& sizes, int64_t field) {
  const auto has_field = [&](const Expression& term) {
    return names(term, field);
  };
  auto ones = sizes.fields;
  ones[static_cast<size_t>(field)] = 1;
  double size = 0;
  for (const auto& term : equation.terms()) {
    const double source = has_field(term) ? 0 : sizes.size_of(term);
    if (source == 0) continue;
    const auto lengths = term.derivatives().empty()
                             ? wavelengths(problem, term, sizes)
                             : sizes.lengths;
    const double of_one =
        Sizes{sizes.variables, ones, lengths}.largest_term(equation, has_field);
    if (of_one > 0) size = std::max(size, source / of_one);
  }
  return size;
}

void size_by_equations(const Problem& problem,
                       const std::vector<double>& lengths,
                       std::vector<double>& fields) {
  const auto variables = inside(problem);
  for (size_t round = 0; round < fields.size(); ++round) {
    const auto before = fields;
    for (size_t f = 0; f < fields.size(); ++f) {
      if (before[f] > 0) continue;
      for (const auto& equation : problem.equations) {
        fields[f] =
            std::max(fields[f], size_by_equation(problem, equation,
                                                 {variables, before, lengths},
                                                 static_cast<int64_t>(f)));
      }
    }
  }
  for (auto& size : fields) size = size > 0 ? size : 1;
}

}  // namespace

ProblemScale::ProblemScale(const Problem& problem) {
  for (const auto& [low, high] : problem.domain) {
    lengths_.push_back((high - low) / 2);
  }
  fields_.assign(problem.symbols.fields.size(), 0);
  size_by_conditions(problem, lengths_, fields_);
  size_by_equations(problem, lengths_, fields_);
  const auto or_one = [](double size) { return size > 0 ? size : 1; };
  const Sizes everywhere{inside(problem), fields_, lengths_};
  for (const auto& equation : problem.equations) {
    equations_.push_back(or_one(everywhere.largest_term(equation)));
  }
  for (const auto& condition : problem.conditions) {
    conditions_.push_back(
        condition.is_periodic()
            ? 1
            : or_one(
                  Sizes{on(problem, condition), fields_, lengths_}.largest_term(
                      condition.residual)));
  }
  if (is_near_one(problem)) *this = {};
}

bool ProblemScale::is_near_one(const Problem& problem) const {
  for (size_t x = 0; x < lengths_.size(); ++x) {
    const auto& [low, high] = problem.domain[x];
    if (lengths_[x] < kShort || std::max(-low, high) > kFarOff) return false;
  }
  const auto near = [](const std::vector<double>& sizes, double low,
                       double high) {
    return std::ranges::all_of(
        sizes, [&](double size) { return is_between(low, size, high); });
  };
  return near(fields_, kSmall, kLarge) && near(equations_, kFaint, kLoud) &&
         near(conditions_, kFaint, kLoud);
}

double ProblemScale::of_equation(size_t number) const {
  return empty() ? 1 : equations_[number];
}

double ProblemScale::of_condition(size_t number) const {
  return empty() ? 1 : conditions_[number];
}

double ProblemScale::of_matched(const Derivative& derivative) const {
  return empty() ? 1 : size_of(derivative, fields_, lengths_);
}

std::string ProblemScale::text(const Symbols& symbols) const {
  std::vector<std::string> all;
  for (size_t x = 0; x < lengths_.size(); ++x) {
    all.push_back(
        fmt::format("{} by {:.3g}", symbols.variables[x], lengths_[x]));
  }
  for (size_t f = 0; f < fields_.size(); ++f) {
    all.push_back(fmt::format("{} by {:.3g}", symbols.fields[f], fields_[f]));
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

}  // namespace propagator::pde
