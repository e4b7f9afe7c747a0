#pragma once

#include "propagator/physics/fields/field_problem.h"

namespace propagator::physics {

enum class WaterStart { kRadial, kPlanar, kStill };

// Shallow water on a flat bed,
//   h_t + (hu)_x + (hv)_y = 0,
//   (hu)_t + (hu² + g h²/2)_x + (huv)_y = 0, and the same for hv,
// by finite volumes: slopes of h, u and v limited by van Leer's mean, fluxes of
// Harten, Lax, van Leer and Einfeldt with the middle wave of shear restored,
// two stages of Heun's method, whose steps are those that the fastest wave of
// all cases allows. Columns of water break down: a round one of random radius,
// or all of one half; or nothing moves. Values (N, T, X, Y, 3): h, hu, hv.
class ShallowWater : public FieldProblem {
 public:
  void describe(config::Schema& schema) override;
  void validate() const override;
  FieldLayout layout() const override;
  FieldCases solve(const CaseRange& range) const override;
  std::map<std::string, double> assess(const CaseRange& range,
                                       const FieldCases& found,
                                       FieldCheck check) const override;
  torch::Tensor continued(const torch::Tensor& states,
                          const torch::Tensor& parameters,
                          int64_t count) const override;
  bool continues() const override { return true; }
  FieldGrid grid() const override { return FieldGrid::kCells; }
  std::vector<std::string> conserved() const override;
  int64_t cases_at_once() const override { return 4; }

 private:
  torch::Tensor radii(const CaseRange& range) const;  // (N)
  // Averages over cells, (N, 3, X, Y), by 8 x 8 points of each.
  torch::Tensor initial(const CaseRange& range, int64_t finer) const;
  // Steps (N, 3, X, Y) on its own cells and gives the state at so many frames.
  void march(torch::Tensor state, int64_t count,
             const std::function<void(const torch::Tensor& state)>& take) const;
  torch::Tensor frames(const CaseRange& range, int64_t finer) const;
  double fastest() const;  // bound of |u| + √(gh)

  int64_t points_ = 128, points_y_ = 0;  // 0: as many as along x
  FieldTimes times_{101, 1};
  double gravity_ = 1, half_side_ = 2.5;
  double height_ = 2, depth_ = 1, radius_min_ = 0.3, radius_max_ = 0.7;
  WaterStart start_ = WaterStart::kRadial;
  Boundary boundary_ = Boundary::kOpen;
  double courant_ = 0.4;
};

// Height and speed between the waves of a broken dam, left of which water of
// height `left` is at rest, and right of which some of height `right`.
struct DamBreak {
  double height, speed, shock;  // of the middle, and the shock's speed
  static DamBreak between(double left, double right, double gravity);
};

}  // namespace propagator::physics

namespace propagator::config {

template <>
struct Names<physics::WaterStart> {
  using enum physics::WaterStart;
  static constexpr std::pair<physics::WaterStart, const char*> all[] = {
      {kRadial, "radial"}, {kPlanar, "planar"}, {kStill, "still"}};
};

}  // namespace propagator::config
