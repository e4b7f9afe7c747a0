#pragma once

#include <torch/types.h>

#include <memory>
#include <vector>

#include "propagator/core/config.h"
#include "propagator/physics/wake/log_polar_grid.h"
#include "propagator/physics/wake/numerov.h"

namespace propagator::physics {

// What of the flow past a cylinder is computed, and how finely. Lengths are in
// diameters, times in diameters over the speed of the stream.
struct WakeFlowOptions {
  double reynolds = 100;
  int64_t modes = 80;
  int64_t rings = 301;
  double outer_radius = 60;
  double sponge_radius = 15;
  double sponge = 0.4;
  double time_step = 0.005;
  double perturbation = 4;
  double stream = 1;  // no key: 0 is a fluid at rest, which has exact solutions

  void describe(config::Schema& schema);
  void describe_grid(config::Schema& schema);  // all but the Reynolds number
  void validate() const;
};

// The incompressible flow past a fixed circular cylinder of diameter 1, in a
// stream of speed 1 along x, Re = 1/ν, from its vorticity ω and its stream
// function ψ, u = ∂ψ/∂y, v = -∂ψ/∂x. With ξ = ln 2r,
//   r² ∂ω/∂t + ψ_θ ω_ξ - ψ_ξ ω_θ = ν (ω_ξξ + ω_θθ),  ψ_ξξ + ψ_θθ = -r² ω.
//
// A velocity from ψ has no divergence whatever the error; the grid in ln r has
// its rings where the boundary layer is and reaches tens of diameters far; and
// in Fourier modes of θ both equations are y″ = q y + g, which NumerovSolver
// solves. Advection is extrapolated and diffusion implicit, both of third
// order in time (backward differences; the first two steps are of first and
// second order).
//
// At the wall ψ = ψ_ξ = 0: ω has no condition of its own there. Of each mode
// the response to a unit of wall vorticity is computed once, and each step adds
// as much of it as makes ψ_ξ vanish. In the mean over θ, k = 0, it is
// ω_ξ = 0, since the pressure comes back to itself around the cylinder.
// At the outer ring there is no vorticity beyond: each mode of ψ less the
// stream goes on as r^-k. There ω_ξ = 0. Beyond `sponge_radius` the viscosity
// grows to `sponge` times r / K, so that the wake, which angles resolve less
// and less, is smooth when it leaves; what is nearer is not touched.
class WakeFlow {
 public:
  WakeFlow(const WakeFlowOptions& options, double time_step,
           const torch::Device& device);

  // One time step. Whether all is still finite is a question of its own, since
  // the answer makes a GPU wait: NumericalError if not.
  void step();
  void expect_finite() const;

  // Goes on from this vorticity, (2, n, K), at time 0; ψ follows from it.
  void start_from(const torch::Tensor& vorticity);

  double time() const { return time_step_ * static_cast<double>(steps_); }
  double viscosity() const { return 1 / options_.reynolds; }
  const LogPolarGrid& grid() const { return grid_; }
  const torch::Tensor& vorticity() const { return vorticity_; }  // (2, n, K)
  const torch::Tensor& stream() const { return stream_[0]; }     // (2, n, K)
  torch::Tensor stream_rate() const;  // ∂ψ/∂t by backward differences
  // Drag and lift over ½ U² D, (2). At the wall p_θ = ν ω_ξ and the shear is
  // ν ω, so that
  //   C_x = ν ∮ (ω_ξ - ω) sin θ dθ,  C_y = -ν ∮ (ω_ξ - ω) cos θ dθ.
  torch::Tensor forces() const;
  // ψ_θ ω_ξ - ψ_ξ ω_θ, which is r² u·∇ω.
  torch::Tensor advection(const torch::Tensor& stream,
                          const torch::Tensor& vorticity) const;

 private:
  // Diffusion by backward differences of one order, and what a unit of wall
  // vorticity does to each mode.
  struct Implicit {
    Implicit(const WakeFlow& flow, int order);
    torch::Tensor scale;  // (n, 1): r² / (ν Δt)
    NumerovSolver solver;
    torch::Tensor vorticity, stream;  // (n, K), k ≥ 1; ω none and ψ = ξ at 0
    torch::Tensor slope;              // (K): of `stream` at the wall
    torch::Tensor mean;               // (n, 1): ω of k = 0
    torch::Tensor mean_slope;         // (1)
  };

  torch::Tensor viscosity_of_rings() const;  // (n, 1)
  torch::Tensor perturbation() const;
  torch::Tensor solve_stream(const torch::Tensor& source) const;
  void add_wall_vorticity(const Implicit& implicit,
                          const torch::Tensor& source);
  void remember_stream(torch::Tensor stream);

  WakeFlowOptions options_;
  double time_step_;
  LogPolarGrid grid_;
  torch::Tensor minus_r2_;  // (n, 1): ψ″ - k² ψ over ω
  torch::Tensor nothing_;   // (2, K) zeros
  torch::Tensor outer_;     // (2, K): ψ′ + k ψ at the outer ring
  torch::Tensor rate_;      // (n, 1): Δt / r²
  NumerovSolver poisson_;
  std::vector<Implicit> implicit_;      // of order 1, 2, 3
  std::vector<torch::Tensor> weights_;  // (1, 6) of order and newest place
  torch::Tensor history_;  // (6, 2 n K): three ω, three Δt u·∇ω
  torch::Tensor vorticity_;
  std::vector<torch::Tensor> stream_;  // the newest first, four at most
  int64_t steps_ = 0;
};

}  // namespace propagator::physics
