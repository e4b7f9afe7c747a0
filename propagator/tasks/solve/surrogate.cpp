#include <torch/utils.h>

#include <cmath>

#include "propagator/core/log.h"
#include "propagator/data/named_table.h"
#include "propagator/pde/residual/problem_box.h"
#include "propagator/pde/residual/problem_points.h"
#include "propagator/tasks/guarded.h"
#include "propagator/tasks/joins_cases.h"
#include "propagator/tasks/solve/solve.h"

namespace propagator::tasks {
namespace {

using torch::Tensor;

// Windows at once: more would only take memory.
constexpr int64_t kWindowsAtOnce = 4096;

// Beside the diagonal of the domain, as far as float32 rounds.
constexpr double kOnEdge = 1e-6;

pde::Probe probe_of(const Quantities& quantities, int64_t variables,
                    pde::Derivatives kind, const Runtime& runtime) {
  std::set<autodiff::Derivative> needed;
  for (const auto& [name, formula] : quantities) {
    needed.merge(formula.derivatives());
  }
  return {autodiff::DerivativePlan(needed, variables), kind, runtime};
}

// Fields, derivatives and formulas of them at any points.
class SolveSurrogate : public Surrogate, public JoinsCases, public Guarded {
 public:
  SolveSurrogate(std::shared_ptr<torch::nn::Module> model,
                 const pde::Problem& problem, Quantities quantities,
                 pde::Derivatives kind, const TimeWindows& windows,
                 const Runtime& runtime)
      : model_(std::move(model)),
        net_(models::as_field_net(*model_)),
        variables_(problem.symbols.variables),
        problem_(problem),
        box_(pde::box_of(problem)),
        quantities_(std::move(quantities)),
        probe_(probe_of(quantities_, std::ssize(variables_), kind, runtime)),
        residuals_(problem_, kind, runtime),
        windows_(windows),
        runtime_(runtime) {
    model_->eval();
    const torch::NoGradGuard no_grad;
    const PrecisionScope scope(runtime_);
    held_ = net_.hold();
  }

  std::vector<Port> inputs() const override {
    std::vector<Port> ports;
    for (size_t d = 0; d < variables_.size(); ++d) {
      ports.push_back({variables_[d],
                       {-1},
                       "of each point; grids of any shape too",
                       std::pair{box_.low[d], box_.high[d]}});
    }
    return ports;
  }
  std::vector<Port> outputs() const override {
    auto ports = inputs();
    for (const auto& [name, formula] : quantities_) {
      ports.push_back({name, {-1}, "at each point"});
    }
    return ports;
  }

  NamedTensors apply(const NamedTensors& inputs) const override {
    const torch::NoGradGuard no_grad;
    const PrecisionScope scope(runtime_);
    const auto given = data::stack_points(inputs, variables_);  // (…, D)
    const auto points = given.flatten(0, -2);
    warn_of_points_outside(points);
    const auto beyond = outside_of_shapes(points);
    std::vector<std::vector<Tensor>> parts(quantities_.size());
    for (int64_t n = 0; n < points.size(0); n += kWindowsAtOnce) {
      const auto environment = probe_.at(
          net_, windows_.of(points.slice(0, n, n + kWindowsAtOnce), runtime_));
      for (size_t q = 0; q < parts.size(); ++q) {
        const auto values = quantities_[q].second.evaluate(environment).value();
        parts[q].push_back(values.select(1, 0).cpu());
      }
    }
    NamedTensors answers;
    for (size_t q = 0; q < parts.size(); ++q) {
      const auto& name = quantities_[q].first;
      auto values = torch::cat(parts[q]);
      warn_of_bad_numbers(name, values);
      values.index_fill_(0, beyond, std::nan(""));
      answers[name] = values.view_as(given.select(-1, 0));
    }
    // What was given stays as it was given.
    for (int64_t d = 0; d < given.size(-1); ++d) {
      answers[variables_[static_cast<size_t>(d)]] = given.select(-1, d);
    }
    return answers;
  }

  // The residual is the root mean square of those of the equations at the
  // points, in their own units.
  Guard guard(const NamedTensors& inputs,
              const NamedTensors& /*answers*/) const override {
    const torch::NoGradGuard no_grad;
    const PrecisionScope scope(runtime_);
    const auto points = data::stack_points(inputs, variables_).flatten(0, -2);
    auto outside = outside_of_box(points);
    outside.index_fill_(0, outside_of_shapes(points), true);
    const auto count = outside.sum().item<int64_t>();
    Guard guard{.outside = "", .residual = std::sqrt(mean_square(points))};
    if (count > 0) {
      guard.outside = fmt::format("{} of {} points outside of the domain",
                                  count, points.size(0));
    }
    return guard;
  }

 private:
  // Of all equations.
  double mean_square(const Tensor& points) const {
    double sum = 0;
    int64_t count = 0;
    for (int64_t n = 0; n < points.size(0); n += kWindowsAtOnce) {
      const auto windows =
          windows_.of(points.slice(0, n, n + kWindowsAtOnce), runtime_);
      for (const auto& left : residuals_.of_equations(net_, windows)) {
        const auto values = left.select(1, 0).to(torch::kFloat64);
        sum += values.square().sum().item<double>();
        count += values.numel();
      }
    }
    return sum / static_cast<double>(std::max<int64_t>(count, 1));
  }

  // Rows of points (N, D): (N).
  Tensor outside_of_box(const Tensor& points) const {
    const auto outside = (points < torch::tensor(box_.low, points.options())) |
                         (points > torch::tensor(box_.high, points.options()));
    return outside.any(1);
  }

  void warn_of_points_outside(const Tensor& points) const {
    const auto count = outside_of_box(points).sum().item<int64_t>();
    if (count == 0) return;
    log::warn(
        "{} of {} points are outside of the domain: nothing was learned there",
        count, points.size(0));
  }

  // Rows of points (N, D), further than rounding takes one on the edge.
  Tensor outside_of_shapes(const Tensor& points) const {
    auto outside = torch::zeros({points.size(0)}, torch::kBool);
    if (problem_.region) {
      outside.fill_(true);
      outside.index_fill_(0, pde::rows_inside(problem_, points, kOnEdge),
                          false);
    }
    const auto rows = outside.nonzero().flatten();
    if (rows.size(0) > 0) {
      log::warn("{} of {} points are outside of the shapes: NaN there",
                rows.size(0), points.size(0));
    }
    return rows;
  }

  static void warn_of_bad_numbers(const std::string& name,
                                  const Tensor& values) {
    const auto bad =
        values.numel() - torch::isfinite(values).sum().item<int64_t>();
    if (bad == 0) return;
    log::warn("{} is not finite at {} of {} points", name, bad, values.numel());
  }

  std::shared_ptr<torch::nn::Module> model_;
  models::FieldNet& net_;
  std::shared_ptr<void> held_;  // what does not depend on the points
  std::vector<std::string> variables_;
  pde::Problem problem_;
  pde::Box box_;
  Quantities quantities_;
  pde::Probe probe_;
  pde::Residuals residuals_;
  TimeWindows windows_;
  Runtime runtime_;
};

}  // namespace

std::unique_ptr<Surrogate> Solve::surrogate(
    std::shared_ptr<torch::nn::Module> model, const Runtime& runtime) const {
  return std::make_unique<SolveSurrogate>(std::move(model), *problem_,
                                          quantities(), derivatives_, windows(),
                                          runtime);
}

}  // namespace propagator::tasks
