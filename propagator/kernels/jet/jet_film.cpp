#include "propagator/kernels/jet/jet_film.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "propagator/kernels/cuda.h"
#include "propagator/kernels/jet/jet_film_tensors.h"
#include "propagator/kernels/lanes.h"
#include "propagator/kernels/sincos.h"

namespace propagator::kernels {
namespace {

using torch::Tensor;

// Features that fill a vector register.
template <class Real>
struct WholeVector {
  using Vector = typename Lanes<Real>::Vector;
  static constexpr int64_t kCount = Lanes<Real>::kWidth;

  static Vector load(const Real* from) { return Lanes<Real>::load(from); }
  static void store(const Vector& v, Real* to) { Lanes<Real>::store(v, to); }
  static void sincos(const Vector& v, Vector* sine, Vector* cosine) {
    Real x[kCount], s[kCount], c[kCount];
    store(v, x);
    kernels::sincos(x, kCount, s, c);
    *sine = load(s);
    *cosine = load(c);
  }
};

// The features after the last whole vector.
template <class Real>
struct OneNumber {
  using Vector = Real;
  static constexpr int64_t kCount = 1;

  static Real load(const Real* from) { return *from; }
  static void store(Real v, Real* to) { *to = v; }
  static void sincos(Real x, Real* sine, Real* cosine) {
    kernels::sincos(&x, 1, sine, cosine);
  }
};

// Calls work(entry) for every entry, on all threads.
template <class Real, class Work>
void for_entries(const JetFilm<Real>& of, const Work& work) {
  at::parallel_for(0, of.points, 16, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      int64_t f = 0;
      for (; f + WholeVector<Real>::kCount <= of.features;
           f += WholeVector<Real>::kCount) {
        work(FilmEntry<Real, WholeVector<Real>>(of, n, f));
      }
      for (; f < of.features; ++f) {
        work(FilmEntry<Real, OneNumber<Real>>(of, n, f));
      }
    }
  });
}

class JetFilmFunction : public torch::autograd::Function<JetFilmFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context,
                        const Tensor& x, const Tensor& film, double w0,
                        int64_t packed) {
    const auto rows = x.contiguous(), by = film.contiguous();
    context->save_for_backward({rows, by});
    context->saved_data["w0"] = w0;
    context->saved_data["orders"] = packed;
    const auto orders = JetOrders::unpacked(packed);
    if (x.is_cuda()) return jet_film_cuda(rows, by, w0, orders);
    auto y = torch::empty_like(rows);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "jet_film", [&] {
      auto* to = y.data_ptr<scalar_t>();
      for_entries(film_of<scalar_t>(rows, by, w0, orders),
                  [&](const auto& entry) { entry.forward(to); });
    });
    return y;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &film = saved[1];
    const double w0 = context->saved_data["w0"].toDouble();
    const auto orders =
        JetOrders::unpacked(context->saved_data["orders"].toInt());
    const auto dy = gradients[0].contiguous();
    const auto dx = torch::empty_like(x), dfilm = torch::empty_like(film);
    if (x.is_cuda()) {
      jet_film_backward_cuda(x, film, w0, orders, dy, dx, dfilm);
    } else {
      AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "jet_film", [&] {
        const JetFilmGradients<scalar_t> with{dy.data_ptr<scalar_t>(),
                                              dx.data_ptr<scalar_t>(),
                                              dfilm.data_ptr<scalar_t>()};
        for_entries(film_of<scalar_t>(x, film, w0, orders),
                    [&](const auto& entry) { entry.backward(with); });
      });
    }
    return {dx, dfilm, Tensor(), Tensor()};
  }
};

}  // namespace

Tensor jet_film(const Tensor& x, const Tensor& film, double w0,
                const JetOrders& orders) {
  return JetFilmFunction::apply(x, film, w0, orders.packed());
}

}  // namespace propagator::kernels
