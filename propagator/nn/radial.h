#pragma once

#include "propagator/autodiff/jet.h"

namespace propagator::nn {

// Functions of the distance r of two points, written in s = r²:
//   squared_exponential  exp(-s/2)
//   matern52             (1 + √(5s) + 5s/3) exp(-√(5s))
//   thin_plate           r² log r = s/2 log s
//   cubic                r³ = s^(3/2)
enum class Radial { kSquaredExponential, kMatern52, kThinPlate, kCubic };

// The highest derivative by place that the function has everywhere, at r = 0
// too; -1: any.
int64_t smoothness_of(Radial radial);

// Squared distances of points (M; N, D) to centres (C, D) at rest: (M; N, C).
// They are never below 0, and 0 where a point is a centre.
autodiff::Jet squared_distances(const autodiff::Jet& points,
                                const torch::Tensor& centres);
torch::Tensor squared_distances(const torch::Tensor& points,
                                const torch::Tensor& centres);

// The function at squared distances, entry by entry. At s = 0 its derivatives
// are those by place, as far as they exist there; the others are 0.
autodiff::Jet radial_of(Radial radial, const autodiff::Jet& s);
torch::Tensor radial_of(Radial radial, const torch::Tensor& s);
// Its first derivative by s, where s > 0 or it is finite at 0.
torch::Tensor radial_slope(Radial radial, const torch::Tensor& s);

}  // namespace propagator::nn
