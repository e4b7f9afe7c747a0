#pragma once

#include <optional>
#include <vector>

#include "propagator/data/split.h"
#include "propagator/pde/residual/residuals.h"
#include "propagator/tasks/solve/saved_state.h"
#include "propagator/tasks/solve/solve_conditions.h"
#include "propagator/tasks/solve/time_windows.h"

namespace propagator::tasks {

// Where a solution is trained: windows of points in the domain and on the faces
// of its learned conditions, resampled in place as training goes on, and fixed
// ones for validation.
class SolvePoints {
 public:
  SolvePoints() = default;
  // Problem and conditions must outlive it. `slabs`: into so many of time the
  // points are divided; 0: into none.
  SolvePoints(const pde::Problem& problem, const SolveConditions& conditions,
              const PointOptions& options, const TimeWindows& windows,
              int64_t slabs, int64_t seed, const Runtime& runtime);

  // (N, T, D)
  const torch::Tensor& of(data::Split split) const {
    return split == data::Split::kTrain ? training_ : validation_;
  }
  const std::vector<pde::Face>& faces() const { return faces_; }
  // (N), the slab of time that a training window begins in; undefined of none.
  const torch::Tensor& slab_of() const { return slab_of_; }

  // Points on a condition's face, those of its drawing `round`, in a slab of
  // time or at all times.
  pde::Face face_of(const pde::Condition& condition, int64_t round,
                    const std::optional<pde::Interval>& slab = {}) const;
  // Of all conditions that are learned, as they were at first, at all times.
  std::vector<pde::Face> first_faces() const;

  // All of them now lie in this slab of time. Initial conditions hold in the
  // first alone.
  void move_to(const pde::Interval& slab);

  // Resamples them where it is time to: adaptive ones of the domain go where
  // the model's residual is large.
  void begin_step(models::FieldNet& model, const pde::Residuals& residuals,
                  int64_t step);
  // Resamples them now, unless this step has; false if they are never
  // resampled.
  bool redraw(models::FieldNet& model, const pde::Residuals& residuals,
              int64_t step);
  // What has been resampled.
  train::NamedTensors state() const;
  void restore(const train::NamedTensors& saved);

 private:
  // Conditions on one face share the tensor of the first one's points.
  bool has_own_points(const pde::Face& face) const;
  std::vector<pde::Face> faces_in(
      const std::optional<pde::Interval>& slab) const;
  torch::Tensor sampled(int64_t round) const;  // (N, D)
  torch::Tensor validated() const;
  void draw(models::FieldNet& model, const pde::Residuals& residuals,
            int64_t round);
  torch::Tensor adaptive(models::FieldNet& model,
                         const pde::Residuals& residuals, int64_t round) const;
  void find_slabs();

  const pde::Problem* problem_ = nullptr;
  const SolveConditions* conditions_ = nullptr;
  PointOptions options_;
  TimeWindows windows_;
  int64_t slabs_ = 0;
  std::optional<pde::Interval> slab_;  // of time; none: all of it
  int64_t seed_ = 0;
  int64_t drawn_at_ = 0;  // step
  Runtime runtime_;
  torch::Tensor training_, validation_;  // (N, T, D)
  torch::Tensor slab_of_;                // (N)
  std::vector<pde::Face> faces_;
};

}  // namespace propagator::tasks
