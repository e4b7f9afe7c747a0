#include "propagator/tasks/solve/solve_points.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <utility>

#include "propagator/core/random.h"
#include "propagator/pde/residual/problem_points.h"

namespace propagator::tasks {
namespace {

using torch::Tensor;

// Points at all times, moved into a slab.
Tensor in_slab(Tensor points, const pde::Problem& problem,
               const std::optional<pde::Interval>& slab) {
  if (!slab) return points;
  const int64_t time = problem.time();
  const auto& [low, high] = problem.domain[static_cast<size_t>(time)];
  const auto share = (points.select(1, time) - low) / (high - low);
  points.select(1, time).copy_(slab->low + share * (slab->high - slab->low));
  return points;
}

// Whether the problem begins with this slab.
bool begins(const pde::Problem& problem, const pde::Interval& slab) {
  return slab.low == problem.domain[static_cast<size_t>(problem.time())].low;
}

}  // namespace

SolvePoints::SolvePoints(const pde::Problem& problem,
                         const SolveConditions& conditions,
                         const PointOptions& options,
                         const TimeWindows& windows, int64_t slabs,
                         int64_t seed, const Runtime& runtime)
    : problem_(&problem),
      conditions_(&conditions),
      options_(options),
      windows_(windows),
      slabs_(slabs),
      seed_(seed),
      runtime_(runtime) {
  training_ = windows_.of(sampled(0), runtime_);
  validation_ = windows_.of(validated(), runtime_);
  faces_ = first_faces();
  if (slabs_ == 0) return;
  slab_of_ =
      torch::empty({training_.size(0)}, runtime.options().dtype(torch::kInt64));
  find_slabs();
}

Tensor SolvePoints::sampled(int64_t round) const {
  return in_slab(
      pde::points_inside(*problem_, options_.sampling, options_.per_axis, seed_,
                         "points/domain", round),
      *problem_, slab_);
}

Tensor SolvePoints::validated() const {
  const int64_t per_axis = options_.validation_per_axis;
  return in_slab(options_.validation == ValidationPoints::kCentres
                     ? pde::centres_inside(*problem_, per_axis)
                     : pde::points_inside(*problem_, pde::Sampling::kSobol,
                                          per_axis, seed_, "points/validation"),
                 *problem_, slab_);
}

bool SolvePoints::has_own_points(const pde::Face& face) const {
  return &conditions_->first_on_face(*face.condition) == face.condition;
}

pde::Face SolvePoints::face_of(const pde::Condition& condition, int64_t round,
                               const std::optional<pde::Interval>& slab) const {
  const bool initial = conditions_->is_initial(condition);
  const auto [everywhere, normals] = pde::points_on(
      *problem_, condition, options_.sampling, options_.per_axis, seed_,
      "points/" + conditions_->first_on_face(condition).text, round);
  const auto points =
      initial ? everywhere : in_slab(everywhere, *problem_, slab);
  pde::Face face{&condition, initial, windows_.of(points, runtime_)};
  if (normals.defined()) {
    face.normals = normals.to(runtime_.device, runtime_.dtype());
  }
  if (condition.is_periodic()) {
    const auto variable = static_cast<size_t>(condition.variable);
    auto end = points.clone();
    end.select(1, condition.variable).fill_(problem_->domain[variable].high);
    face.opposite = windows_.of(end, runtime_);
  }
  return face;
}

std::vector<pde::Face> SolvePoints::first_faces() const { return faces_in({}); }

std::vector<pde::Face> SolvePoints::faces_in(
    const std::optional<pde::Interval>& slab) const {
  std::vector<pde::Face> faces;
  for (const auto* condition : conditions_->learned()) {
    if (slab && !begins(*problem_, *slab) &&
        conditions_->is_initial(*condition)) {
      continue;
    }
    const auto shared = std::ranges::find(
        faces, &conditions_->first_on_face(*condition), &pde::Face::condition);
    faces.push_back(shared == faces.end() ? face_of(*condition, 0, slab)
                                          : pde::Face{condition,
                                                      shared->first_token,
                                                      shared->windows,
                                                      {},
                                                      shared->normals});
  }
  return faces;
}

void SolvePoints::begin_step(models::FieldNet& model,
                             const pde::Residuals& residuals, int64_t step) {
  if (options_.resample_every == 0 || step == 0 ||
      step % options_.resample_every != 0) {
    return;
  }
  drawn_at_ = step;
  draw(model, residuals, step / options_.resample_every);
}

bool SolvePoints::redraw(models::FieldNet& model,
                         const pde::Residuals& residuals, int64_t step) {
  if (options_.resample_every == 0) return false;
  // Rounds below zero are no regular ones.
  if (std::exchange(drawn_at_, step) != step) draw(model, residuals, -step);
  return true;
}

void SolvePoints::draw(models::FieldNet& model, const pde::Residuals& residuals,
                       int64_t round) {
  // In place: a graph of the step reads where the first points were.
  training_.copy_(windows_.of(
      options_.adaptive ? adaptive(model, residuals, round) : sampled(round),
      runtime_));
  for (auto& face : faces_) {
    if (!has_own_points(face)) continue;
    const auto drawn = face_of(*face.condition, round, slab_);
    face.windows.copy_(drawn.windows);
    if (face.opposite.defined()) face.opposite.copy_(drawn.opposite);
    if (face.normals.defined()) face.normals.copy_(drawn.normals);
  }
  find_slabs();
}

// Drawn from many uniform points without replacement, each with a chance in
// proportion to 1 + |residual| / mean: by the largest of log p plus a Gumbel
// number.
Tensor SolvePoints::adaptive(models::FieldNet& model,
                             const pde::Residuals& residuals,
                             int64_t round) const {
  const torch::NoGradGuard no_grad;
  const auto stream = fmt::format("points/adaptive/{}", round);
  std::vector<Tensor> pool, sizes;
  for (int64_t part = 0; part < options_.candidates; ++part) {
    pool.push_back(
        in_slab(pde::points_inside(*problem_, pde::Sampling::kUniform,
                                   options_.per_axis, seed_, stream, part),
                *problem_, slab_));
    Tensor size;
    for (const auto& residual :
         residuals.of_equations(model, windows_.of(pool.back(), runtime_))) {
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
  return torch::cat(pool).index_select(
      0, std::get<1>(keys.topk(training_.size(0))));
}

void SolvePoints::move_to(const pde::Interval& slab) {
  slab_ = slab;
  training_.copy_(windows_.of(sampled(0), runtime_));
  validation_.copy_(windows_.of(validated(), runtime_));
  faces_ = faces_in(slab_);
  find_slabs();
}

void SolvePoints::find_slabs() {
  if (slabs_ == 0) return;
  const int64_t time = problem_->time();
  const auto& [low, high] = problem_->domain[static_cast<size_t>(time)];
  const auto begin = training_.select(1, 0).select(1, time);
  const auto slabs = static_cast<double>(slabs_);
  slab_of_.copy_(
      ((begin - low) * (slabs / (high - low))).floor().clamp(0, slabs - 1));
}

train::NamedTensors SolvePoints::state() const {
  train::NamedTensors state;
  if (options_.resample_every == 0) return state;
  state["points"] = training_;
  for (size_t n = 0; n < faces_.size(); ++n) {
    if (!has_own_points(faces_[n])) continue;
    state[fmt::format("face.{}", n)] = faces_[n].windows;
    if (faces_[n].opposite.defined()) {
      state[fmt::format("opposite.{}", n)] = faces_[n].opposite;
    }
    if (faces_[n].normals.defined()) {
      state[fmt::format("normals.{}", n)] = faces_[n].normals;
    }
  }
  return state;
}

void SolvePoints::restore(const train::NamedTensors& saved) {
  restore_state(state(), saved);
  find_slabs();
}

}  // namespace propagator::tasks
