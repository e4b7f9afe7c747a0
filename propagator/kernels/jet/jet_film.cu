#include "propagator/kernels/jet/jet_film.cuh"
#include "propagator/kernels/warp.cuh"

namespace propagator::kernels {
namespace {

constexpr int kThreads = 256;

template <class Real>
struct OneNumber {
  using Vector = Real;

  static __device__ Real load(const Real* from) { return *from; }
  static __device__ void store(Real v, Real* to) { *to = v; }
  static __device__ void sincos(Real x, Real* sine, Real* cosine) {
    sine_and_cosine(x, sine, cosine);
  }
};

// Calls work(entry) for the one of this thread.
template <class Real, class Work>
__device__ void with_entry(const JetFilm<Real>& of, const Work& work) {
  const int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (at >= of.points * of.features) return;
  work(
      FilmEntry<Real, OneNumber<Real>>(of, at / of.features, at % of.features));
}

template <class Real>
__global__ void __launch_bounds__(kThreads) forward(JetFilm<Real> of, Real* y) {
  with_entry(of, [&](const auto& entry) { entry.forward(y); });
}

template <class Real>
__global__ void __launch_bounds__(kThreads)
    backward(JetFilm<Real> of, JetFilmGradients<Real> with) {
  with_entry(of, [&](const auto& entry) { entry.backward(with); });
}

template <class Real>
unsigned blocks_of(const JetFilm<Real>& of) {
  return static_cast<unsigned>(blocks_for(of.points * of.features, kThreads));
}

}  // namespace

template <class Real>
void launch_jet_film(const JetFilm<Real>& of, Real* y, cudaStream_t stream) {
  forward<<<blocks_of(of), kThreads, 0, stream>>>(of, y);
}

template <class Real>
void launch_jet_film_backward(const JetFilm<Real>& of,
                              const JetFilmGradients<Real>& with,
                              cudaStream_t stream) {
  backward<<<blocks_of(of), kThreads, 0, stream>>>(of, with);
}

#define INSTANTIATE(Real)                                                   \
  template void launch_jet_film(const JetFilm<Real>&, Real*, cudaStream_t); \
  template void launch_jet_film_backward(                                   \
      const JetFilm<Real>&, const JetFilmGradients<Real>&, cudaStream_t);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace propagator::kernels
