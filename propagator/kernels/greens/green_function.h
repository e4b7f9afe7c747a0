#pragma once

#include <torch/types.h>

#include "propagator/kernels/greens/green_formula.h"

namespace propagator::kernels {

// Of which equation a Green's function is:
//   heat                 u_t = a Δu + f
//   wave                 u_tt = c² Δu + f
//   poisson              -Δu = f
//   advection_diffusion  u_t + b·∇u = a Δu + f
enum class GreenKind { kNone, kHeat, kWave, kPoisson, kAdvectionDiffusion };

// full: log G itself. peak: log(G / the largest G at the same Δt), which is at
// most 0, has no unit, and goes to 0 as a diffusivity grows.
enum class GreenScale { kFull, kPeak };

// G(Δx, Δt) in unbounded space of d dimensions, r = |Δx|, made finite where the
// exact one is not. With T = Δt + time_core it is zero unless Δt ≥ 0 and T > 0:
// without a time_core a token sees neither itself nor others of its time.
//   heat        (4π a T)^(-d/2) exp(-r² / (4 a T))
//   advection…  the same of Δx - b Δt
//   wave        zero outside the cone, r > c T. With l = core
//     d = 1       1 / (2 c)
//     d = 2       (√(c²T² + l²) + l) / (2π c² T √(c²T² - r² + l²))
//     d = 3       T over the volume of the shell c T - l ≤ r ≤ c T
//   poisson     of ρ = √(r² + l²), whatever Δt is; zero for ρ ≥ R in d = 1, 2
//     d = 1       (R - ρ) / 2
//     d = 2       log(R / ρ) / 2π
//     d = 3       1 / (4π ρ)
// Over space heat has the integral 1 and the wave T, exactly, for every core.
struct GreenFunction {
  GreenKind kind = GreenKind::kNone;
  int64_t dimensions = 1;
  GreenScale scale = GreenScale::kFull;
  double core = 0;       // l, a length: of wave and poisson
  double radius = 0;     // R, a length: of poisson in d = 1, 2
  double time_core = 0;  // a time, by which a source has spread already

  bool in_time() const;         // whether it knows Δt
  int64_t parameters() const;   // a or c, and b: 0, 1 or 1 + d of them
  int64_t coordinates() const;  // d, and the time behind them if it knows Δt
  GreenSettings settings() const;  // for kernels
  // std::invalid_argument if there is no such function.
  void check() const;
};

// log G, (…), of Δx (…, d) and Δt (…): exactly -∞ where G is zero, with finite
// gradients by the parameters (1 or 1 + d), which are a or c, then b.
torch::Tensor log_green(const GreenFunction& green,
                        const torch::Tensor& parameters,
                        const torch::Tensor& dx, const torch::Tensor& dt);

// A Green's function among tokens. A global token, the first one, sees and is
// seen by all with the logit 0; its coordinates are not read.
struct GreenTerm {
  GreenFunction function;
  torch::Tensor parameters = {};
  bool global_query = false, global_key = false;
};

// Γ_ij = log G(x_i - x_j, t_i - t_j), (B, 1, Tq, Tk), of queries (B, Tq, A) and
// keys (B, Tk, A), time behind space; -∞ where `hidden`, (B, Tk) bool or
// undefined, is true.
torch::Tensor green_logits(const GreenTerm& term, const torch::Tensor& queries,
                           const torch::Tensor& keys,
                           const torch::Tensor& hidden = {});

}  // namespace propagator::kernels
