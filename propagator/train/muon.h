#pragma once

#include <torch/types.h>

#include "propagator/train/flat_parameters.h"

namespace propagator::train {

// The matrices of a stack in a flat buffer, (count, rows, columns).
torch::Tensor matrices_of(const torch::Tensor& flat,
                          const FlatParameters::Stack& stack);

// The nearest matrices with orthonormal rows (or columns, whichever are fewer)
// to those of `x` (N, R, C), nearly: singular values come out between 0.7 and
// 1.2. Five steps of a Newton–Schulz iteration with the polynomial a s + b s³ +
// c s⁵, chosen to rise fast from small s.
torch::Tensor orthogonalised(const torch::Tensor& x);

// One update of Muon, in place, on matrices w with gradient g, all (N, R, C):
//   m = momentum m + (1 - momentum) g
//   w = w - lr kScale √max(R, C) orthogonalised(momentum m + (1 - momentum) g)
// so that all directions of a matrix move alike, and its entries by as much, in
// root mean square, as they do under Adam with the same lr.
void muon_step(torch::Tensor w, const torch::Tensor& g, torch::Tensor m,
               const torch::Tensor& lr, double momentum);

}  // namespace propagator::train
