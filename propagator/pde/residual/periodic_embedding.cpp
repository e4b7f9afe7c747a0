#include "propagator/pde/residual/periodic_embedding.h"

#include <torch/utils.h>

#include <algorithm>
#include <numbers>

#include "propagator/autodiff/jet_memo.h"
#include "propagator/pde/residual/condition_value.h"

namespace propagator::pde {

using pde::Condition;

namespace {

// Whether it matches every field with all derivatives along the variable that
// the equations leave free.
bool matches_all(const pde::Problem& problem, const Condition& condition) {
  const auto along = static_cast<size_t>(condition.variable);
  const auto matched = condition.derivatives();
  for (const auto& derivative : problem.derivatives()) {
    autodiff::Derivative pure{derivative.field,
                              std::vector<int64_t>(problem.domain.size(), 0)};
    const int64_t orders = std::max<int64_t>(derivative.orders[along], 1);
    for (; pure.orders[along] < orders; ++pure.orders[along]) {
      if (!matched.contains(pure)) return false;
    }
  }
  return true;
}

// Whether the equations take a corner of the field away as soon as time goes
// on: they have more derivatives of it along the variable than by time, as
// diffusion and dispersion do, and growth, transport and waves do not.
bool takes_corners_away(const pde::Problem& problem, int64_t field,
                        int64_t variable) {
  int64_t along = 0, by_time = 0;
  for (const auto& derivative : problem.derivatives()) {
    if (derivative.field != field) continue;
    const auto order = [&](int64_t by) {
      return derivative.orders[static_cast<size_t>(by)];
    };
    along = std::max(along, order(variable));
    by_time = std::max(by_time, order(problem.time()));
  }
  return along > by_time;
}

// Whether all fields begin as functions that are smooth around the period, or
// become so at once.
bool is_smooth_around(const pde::Problem& problem, const Condition& periodic) {
  const int64_t time = problem.time();
  return std::ranges::all_of(problem.conditions, [&](const Condition& c) {
    if (c.is_periodic() || c.variable != time) return true;
    const auto given = value_of(problem, c, /*with_corners=*/true);
    return !given || goes_around(problem, c, periodic, given->rest) ||
           takes_corners_away(problem, c.derivatives().begin()->field,
                              periodic.variable);
  });
}

}  // namespace

// A network of the embedding, as one on the domain: x becomes cos φ, and sin φ
// comes behind all variables, with φ = 2π (x - low) / length. It owns all that
// it needs of the problem: a model may outlive its task.
class WithPeriodicEmbedding : public autodiff::FieldNet {
 public:
  WithPeriodicEmbedding(std::vector<PeriodicEmbedding::Period> periodic,
                        std::shared_ptr<autodiff::FieldNet> network)
      : periodic_(std::move(periodic)),
        network_(register_module("network", std::move(network))) {}

  Jet forward(const Jet& points) override {
    const auto made = [&] { return embedded(points); };
    return network_->forward(is_training() ? known_.of(points, made) : made());
  }
  void observe(const autodiff::Observations& read) override {
    network_->observe(
        {embedded(Jet::constant(read.points)).value(), read.readings});
  }
  std::shared_ptr<void> hold() override { return network_->hold(); }
  torch::Tensor unknowns() const override { return network_->unknowns(); }
  void initialise(int64_t seed) override { network_->initialise(seed); }

 private:
  Jet embedded(const Jet& points) const {
    auto inputs = autodiff::coordinates(points);
    for (const auto& [variable, low, length] : periodic_) {
      auto& x = inputs[static_cast<size_t>(variable)];
      const auto angle = (x - low) * (2 * std::numbers::pi / length);
      x = autodiff::cos(angle);
      inputs.push_back(autodiff::sin(angle));
    }
    std::vector<torch::Tensor> rows;
    for (const auto& input : inputs) rows.push_back(input.rows());
    return Jet(torch::stack(rows, -1), points.layout());
  }

  std::vector<PeriodicEmbedding::Period> periodic_;
  std::shared_ptr<autodiff::FieldNet> network_;
  autodiff::JetMemo<Jet> known_;
};

PeriodicEmbedding::PeriodicEmbedding(const pde::Problem& problem, bool smooth) {
  for (const auto& condition : problem.conditions) {
    if (!condition.is_periodic() || has(condition)) continue;
    if (!matches_all(problem, condition)) continue;
    if (smooth && !is_smooth_around(problem, condition)) continue;
    const auto& [low, high] =
        problem.domain[static_cast<size_t>(condition.variable)];
    periodic_.push_back({condition.variable, low, high - low});
  }
}

bool PeriodicEmbedding::has(const Condition& condition) const {
  return condition.is_periodic() &&
         std::ranges::any_of(periodic_, [&](const Period& period) {
           return period.variable == condition.variable;
         });
}

autodiff::FieldDomain PeriodicEmbedding::seen(
    const autodiff::FieldDomain& domain) const {
  auto seen = domain;
  for (const auto& period : periodic_) {
    const auto at = static_cast<size_t>(period.variable);
    if (period.variable == domain.time) seen.time_is_periodic = true;
    seen.low[at] = -1;
    seen.high[at] = 1;
    seen.low.push_back(-1);
    seen.high.push_back(1);
  }
  return seen;
}

std::vector<int64_t> PeriodicEmbedding::columns_of(int64_t variable,
                                                   int64_t variables) const {
  std::vector<int64_t> columns{variable};
  for (size_t n = 0; n < periodic_.size(); ++n) {
    if (periodic_[n].variable != variable) continue;
    columns.push_back(variables + static_cast<int64_t>(n));
  }
  return columns;
}

std::shared_ptr<autodiff::FieldNet> PeriodicEmbedding::embed(
    std::shared_ptr<autodiff::FieldNet> network) const {
  if (periodic_.empty()) return network;
  return std::make_shared<WithPeriodicEmbedding>(periodic_, std::move(network));
}

}  // namespace propagator::pde
