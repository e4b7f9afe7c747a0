#pragma once

#include <cuda_runtime.h>

#include "propagator/kernels/jet/jet_film_entry.h"

namespace propagator::kernels {

// Rows are contiguous; see jet_film.h.
template <class Real>
void launch_jet_film(const JetFilm<Real>& of, Real* y, cudaStream_t stream);

template <class Real>
void launch_jet_film_backward(const JetFilm<Real>& of,
                              const JetFilmGradients<Real>& with,
                              cudaStream_t stream);

}  // namespace propagator::kernels
