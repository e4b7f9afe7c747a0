#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/core/random.h"
#include "propagator/pde/residual/problem_box.h"
#include "propagator/tasks/solve/solve.h"

// What changes while a solution is trained: points and weights.

namespace propagator::tasks {
namespace {

using models::as_field_net;
using torch::Tensor;

// Uniform points, for each one that follows the residual.
constexpr int64_t kCandidates = 4;

constexpr const char* kWeights = "weights";  // in a checkpoint

}  // namespace

void Solve::begin_step(torch::nn::Module& module, int64_t step) {
  auto& model = as_field_net(module);
  if (points_.resample_every > 0 && step > 0 &&
      step % points_.resample_every == 0) {
    resample(model, step / points_.resample_every);
  }
  if (loss_options_.causality > 0) order_in_time(model);
  const bool learned = loss_options_.balance == pde::Balance::kUncertainty;
  if (weights_change() && !learned && step % loss_options_.balance_every == 0) {
    rebalance(model, step);
  }
}

void Solve::resample(models::FieldNet& model, int64_t round) {
  // In place: a graph of the step reads where the first points were.
  windows_.copy_(windows_of(
      points_.adaptive
          ? adaptive_points(model, round)
          : pde::sample(pde::box_of(*problem_), points_.sampling,
                        points_.per_axis, seed_, "points/domain", round)));
  for (auto& face : faces_) {
    if (!has_own_points(face)) continue;
    const auto drawn = face_of(*face.condition, round);
    face.windows.copy_(drawn.windows);
    if (face.opposite.defined()) face.opposite.copy_(drawn.opposite);
  }
  if (slab_of_.defined()) find_slabs();
}

void Solve::find_slabs() {
  const int64_t time = problem_->time();
  const auto& [low, high] = problem_->domain[static_cast<size_t>(time)];
  const auto begin = windows_.select(1, 0).select(1, time);
  const auto slabs = static_cast<double>(loss_options_.slabs);
  slab_of_.copy_(
      ((begin - low) * (slabs / (high - low))).floor().clamp(0, slabs - 1));
}

void Solve::order_in_time(models::FieldNet& model) {
  const torch::NoGradGuard no_grad;
  const PrecisionScope scope(runtime_);
  auto sums = torch::zeros_like(counts_), points = torch::zeros_like(counts_);
  for (const auto& residual : residuals_.of_equations(model, windows_)) {
    sums.index_add_(0, slab_of_, residual.square().mean(1));
  }
  points.index_add_(0, slab_of_, torch::ones_like(slab_of_, sums.options()));
  const auto means = sums / points.clamp_min(1);
  counts_.copy_(
      torch::exp(-loss_options_.causality * (means.cumsum(0) - means)));
}

// Drawn from many uniform points without replacement, each with a chance in
// proportion to 1 + |residual| / mean: by the largest of log p plus a Gumbel
// number.
Tensor Solve::adaptive_points(models::FieldNet& model, int64_t round) const {
  const torch::NoGradGuard no_grad;
  const auto stream = fmt::format("points/adaptive/{}", round);
  const int64_t count = windows_.size(0);
  std::vector<Tensor> pool, sizes;
  for (int64_t part = 0; part < kCandidates; ++part) {
    pool.push_back(pde::sample(pde::box_of(*problem_), pde::Sampling::kUniform,
                               points_.per_axis, seed_, stream, part));
    Tensor size;
    for (const auto& residual :
         residuals_.of_equations(model, windows_of(pool.back()))) {
      const auto here = residual.select(1, 0).abs().to(torch::kFloat64).cpu();
      size = size.defined() ? size + here : here;
    }
    sizes.push_back(size);
  }
  const auto size = torch::cat(sizes);
  const auto chance = 1 + size / size.mean().clamp_min(1e-300);
  const auto uniform = RandomStream(seed_, stream + "/choice")
                           .uniform({size.size(0)}, 0, 1, torch::kFloat64);
  const auto keys = chance.log() - (-(uniform.clamp_min(1e-300)).log()).log();
  return torch::cat(pool).index_select(0, std::get<1>(keys.topk(count)));
}

void Solve::rebalance(models::FieldNet& model, int64_t step) {
  std::vector<pde::TermResiduals> terms{[&] {
    return in_order_of_time(residuals_.of_equations(model, windows_));
  }};
  for (const auto& face : faces_) {
    terms.emplace_back(
        [&] { return residuals_.of_faces(model, {face}).front(); });
  }
  std::vector<Tensor> trained = model.parameters();
  std::erase_if(trained, [](const Tensor& p) { return !p.requires_grad(); });
  const PrecisionScope scope(runtime_);
  const auto balanced =
      pde::balanced_weights(loss_options_.balance, terms, trained,
                            loss_options_.equation, seed_, step);
  weights_.lerp_(
      torch::tensor(balanced, torch::kFloat64).to(weights_.options()),
      loss_options_.balance_rate);
}

std::map<std::string, Tensor> Solve::state() const {
  std::map<std::string, Tensor> state;
  if (weights_change()) state[kWeights] = weights_;
  if (points_.resample_every == 0) return state;
  state["points"] = windows_;
  for (size_t n = 0; n < faces_.size(); ++n) {
    if (!has_own_points(faces_[n])) continue;
    state[fmt::format("face.{}", n)] = faces_[n].windows;
    if (faces_[n].opposite.defined()) {
      state[fmt::format("opposite.{}", n)] = faces_[n].opposite;
    }
  }
  return state;
}

void Solve::restore(const std::map<std::string, Tensor>& saved) {
  for (auto& [name, tensor] : state()) {
    const auto found = saved.find(name);
    // Weights that were fixed begin to change where they are.
    if (found == saved.end() && name == kWeights) continue;
    if (found == saved.end() || found->second.sizes() != tensor.sizes()) {
      throw DataError(fmt::format(
          "[solve] the checkpoint has no '{}' of this configuration", name));
    }
    Tensor(tensor).copy_(found->second);
  }
  if (slab_of_.defined()) find_slabs();
}

}  // namespace propagator::tasks
