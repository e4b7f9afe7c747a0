#pragma once

#include <torch/types.h>

#include "propagator/kernels/jet/jet_film_entry.h"

namespace propagator::kernels {

// Contiguous tensors as the kernels on the CPU and on CUDA read them.
template <class Real>
JetFilm<Real> film_of(const torch::Tensor& x, const torch::Tensor& film,
                      double w0, const JetOrders& orders) {
  const int64_t features = x.size(-1);
  return {x.numel() / orders.rows() / features,
          features,
          orders,
          static_cast<Real>(w0),
          x.data_ptr<Real>(),
          film.data_ptr<Real>()};
}

}  // namespace propagator::kernels
