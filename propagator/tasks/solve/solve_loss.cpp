#include "propagator/tasks/solve/solve_loss.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>

#include "propagator/core/error.h"

namespace propagator::tasks {
namespace {

using torch::Tensor;

constexpr const char* kWeights = "weights";  // in a checkpoint

// A weight goes to 1e8 at most.
constexpr double kMinLogVariance = -18.4;

// Mean squares (K) and what is added to some of them.
Tensor with_added(const Tensor& squares, const std::vector<Tensor>& added) {
  if (std::ranges::none_of(added, &Tensor::defined)) return squares;
  std::vector<Tensor> all;
  for (const auto& one : added) {
    all.push_back(one.defined() ? one : torch::zeros({}, squares.options()));
  }
  return squares + torch::stack(all);
}

}  // namespace

SolveLoss::SolveLoss(const pde::Problem& problem,
                     const SolveConditions& conditions,
                     const SolveLossOptions& options, std::vector<OwnTerm> own)
    : problem_(&problem),
      options_(options),
      own_(std::move(own)),
      names_{"equation"},
      configured_{options.equation},
      initial_{false} {
  for (const auto* condition : conditions.learned()) {
    names_.push_back(conditions.name_of(*condition));
    initial_.push_back(conditions.is_initial(*condition));
    configured_.push_back(initial_.back() ? options.initial : options.boundary);
  }
  for (const auto& term : own_) {
    names_.push_back(term.name);
    configured_.push_back(term.weight);
    initial_.push_back(false);
  }
  if (options_.causality > 0 && problem.time() < 0) {
    throw ConfigError("loss.causality", "the problem has no time",
                      "the variable named t is time");
  }
  expect_weights();
}

void SolveLoss::expect_weights() const {
  const auto is_zero = [](double weight) { return weight == 0; };
  if (std::ranges::all_of(configured_, is_zero)) {
    throw ConfigError("loss.equation", "all weights of the loss are 0",
                      "set loss.equation, loss.initial or loss.boundary");
  }
  if (options_.balance == pde::Balance::kFixed) return;
  for (const double weight : configured_) {
    if (weight > 0) continue;
    throw ConfigError("loss.balance", "weights that change must begin above 0",
                      "set loss.equation, loss.initial and loss.boundary, "
                      "or loss.balance=fixed");
  }
}

void SolveLoss::prepare(pde::Derivatives derivatives, int64_t seed,
                        const Runtime& runtime,
                        const pde::ProblemScale& scale) {
  seed_ = seed;
  runtime_ = runtime;
  residuals_ = pde::Residuals(*problem_, derivatives, runtime, scale);
  set_weights();
  if (slabs() > 0) counts_ = torch::ones({slabs()}, runtime.options());
  if (!is_learned()) return;
  // In float32 first, as the parameters of models are.
  log_variances_ = (-torch::tensor(configured_, torch::kFloat64).log())
                       .to(torch::kFloat32)
                       .to(runtime.options())
                       .set_requires_grad(true);
}

void SolveLoss::set_weights() {
  fixed_weights_ =
      torch::tensor(configured_, torch::kFloat64).to(runtime_.options());
  weights_ = fixed_weights_.clone();
}

void SolveLoss::leave_out_initial() {
  for (size_t n = names_.size(); n-- > 0;) {
    if (!initial_[n]) continue;
    const auto at = static_cast<std::ptrdiff_t>(n);
    names_.erase(names_.begin() + at);
    configured_.erase(configured_.begin() + at);
    initial_.erase(initial_.begin() + at);
  }
  set_weights();
}

train::NamedTensors SolveLoss::learned() const {
  if (!log_variances_.defined()) return {};
  return {{kLogVariances, log_variances_}};
}

std::vector<Tensor> SolveLoss::in_order_of_time(
    std::vector<Tensor> residuals, const SolvePoints& points,
    const std::optional<Tensor>& positions) const {
  const auto& slab_of = points.slab_of();
  if (!slab_of.defined()) return residuals;
  const auto roots = counts_.sqrt().index_select(
      0, positions ? slab_of.index_select(0, *positions) : slab_of);
  for (auto& residual : residuals) residual = residual * roots.unsqueeze(1);
  return residuals;
}

train::Loss SolveLoss::at(torch::nn::Module& module, const SolvePoints& points,
                          data::Split split, const Tensor& positions) {
  const bool training = split == data::Split::kTrain;
  const auto& windows = points.of(split);
  std::optional<Tensor> where;  // nowhere in particular: all of them
  if (positions.size(0) < windows.size(0)) {
    where = positions.to(runtime_.device);
  }
  auto& model = models::as_field_net(module);
  const auto held = model.hold();
  const auto left = residuals_.everywhere(
      model, where ? windows.index_select(0, *where) : windows, points.faces());
  std::vector<std::vector<Tensor>> residuals{
      training ? in_order_of_time(left.equations, points, where)
               : left.equations};
  residuals.insert(residuals.end(), left.faces.begin(), left.faces.end());
  std::vector<Tensor> added(residuals.size());
  for (const auto& term : own_) {
    auto own = term.left(model, split);
    residuals.push_back(std::move(own.residuals));
    added.push_back(own.added);
  }
  const auto terms = with_added(mean_squares_(residuals), added);
  train::Loss loss;
  auto weights = training ? weights_ : fixed_weights_;
  if (training && is_learned()) {
    const auto logs = log_variances_.clamp_min(kMinLogVariance);
    weights = (-logs).exp();
    loss.total = (weights * terms + logs).sum();
  } else {
    loss.total = (weights * terms).sum();
  }
  const auto values = terms.detach().unbind();
  for (size_t n = 0; n < names_.size(); ++n) {
    loss.terms.push_back({names_[n], configured_[n], values[n]});
  }
  if (training && !problem_->unknowns.empty()) {
    const auto values_now = model.unknowns().detach().unbind();
    for (size_t k = 0; k < values_now.size(); ++k) {
      loss.terms.push_back(
          {fmt::format("{}{}", train::kValueOf, problem_->unknowns[k].name), 0,
           values_now[k]});
    }
  }
  if (training && weights_change()) {
    for (size_t n = 0; n < names_.size(); ++n) {
      loss.terms.push_back({fmt::format("{}{}", train::kWeightOf, names_[n]), 0,
                            weights[static_cast<int64_t>(n)].detach()});
    }
  }
  return loss;
}

void SolveLoss::begin_step(models::FieldNet& model, const SolvePoints& points,
                           int64_t step) {
  if (slabs() > 0) order_in_time(model, points);
  if (weights_change() && !is_learned() && step % options_.balance_every == 0) {
    rebalance(model, points, step);
  }
}

void SolveLoss::order_in_time(models::FieldNet& model,
                              const SolvePoints& points) {
  const torch::NoGradGuard no_grad;
  const PrecisionScope scope(runtime_);
  const auto& slab_of = points.slab_of();
  auto sums = torch::zeros_like(counts_), counted = torch::zeros_like(counts_);
  for (const auto& residual :
       residuals_.of_equations(model, points.of(data::Split::kTrain))) {
    sums.index_add_(0, slab_of, residual.square().mean(1));
  }
  counted.index_add_(0, slab_of, torch::ones_like(slab_of, sums.options()));
  const auto means = sums / counted.clamp_min(1);
  counts_.copy_(torch::exp(-options_.causality * (means.cumsum(0) - means)));
}

void SolveLoss::rebalance(models::FieldNet& model, const SolvePoints& points,
                          int64_t step) {
  std::vector<pde::TermResiduals> terms{[&] {
    return in_order_of_time(
        residuals_.of_equations(model, points.of(data::Split::kTrain)), points);
  }};
  for (const auto& face : points.faces()) {
    terms.emplace_back(
        [&] { return residuals_.of_faces(model, {face}).front(); });
  }
  for (const auto& term : own_) {
    terms.emplace_back(
        [&] { return term.left(model, data::Split::kTrain).residuals; });
  }
  std::vector<Tensor> trained = model.parameters();
  std::erase_if(trained, [](const Tensor& p) { return !p.requires_grad(); });
  const PrecisionScope scope(runtime_);
  const auto balanced = pde::balanced_weights(options_.balance, terms, trained,
                                              options_.equation, seed_, step);
  weights_.lerp_(
      torch::tensor(balanced, torch::kFloat64).to(weights_.options()),
      options_.balance_rate);
}

train::NamedTensors SolveLoss::state() const {
  if (!weights_change()) return {};
  return {{kWeights, weights_}};
}

void SolveLoss::restore(const train::NamedTensors& saved) {
  // Weights that were fixed begin to change where they are.
  if (saved.contains(kWeights)) restore_state(state(), saved);
}

}  // namespace propagator::tasks
