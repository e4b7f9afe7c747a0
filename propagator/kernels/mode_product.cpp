#include "propagator/kernels/mode_product.h"

#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <torch/utils.h>

#include <vector>

#include "propagator/core/torch_compat.h"
#include "propagator/kernels/list_function.h"
#include "propagator/kernels/tile_product.h"

namespace propagator::kernels {
namespace {

using torch::Tensor;
using Tensors = torch::autograd::variable_list;

// The products of one frequency after another: a complex row (a + i b) as the
// real one (a, b), and R + i I as
//   ( R  I)
//   (-I  R)
// with zeros behind each half, up to whole vectors. One object serves one of
// the three products: another would find its numbers where zeros should be.
template <class Real>
class ModeProducts {
 public:
  ModeProducts(int64_t rows, int64_t in, int64_t out)
      : rows_(rows),
        in_(in),
        out_(out),
        wide_in_(padded(in)),
        wide_out_(padded(out)),
        x_(static_cast<size_t>(2 * rows * wide_in_)),
        y_(static_cast<size_t>(2 * rows * wide_out_)),
        w_(static_cast<size_t>(4 * wide_in_ * wide_out_)) {}

  void forward(const Real* x, const Real* weight, Real* y) {
    apart(x, in_, wide_in_, x_);
    for (int64_t i = 0; i < in_; ++i) {
      for (int64_t o = 0; o < out_; ++o) {
        put(i, o, wide_in_, wide_out_, weight + 2 * (i * out_ + o));
      }
    }
    multiply(x_, wide_in_, wide_out_, y_);
    together(y_, out_, wide_out_, y);
  }

  // x̄ = ȳ Rᴴ
  void by_x(const Real* dy, const Real* weight, Real* dx) {
    apart(dy, out_, wide_out_, y_);
    for (int64_t i = 0; i < in_; ++i) {
      for (int64_t o = 0; o < out_; ++o) {
        const Real* r = weight + 2 * (i * out_ + o);
        const Real conjugate[] = {r[0], -r[1]};
        put(o, i, wide_out_, wide_in_, conjugate);
      }
    }
    multiply(y_, wide_out_, wide_in_, x_);
    together(x_, in_, wide_in_, dx);
  }

  // R̄ = xᴴ ȳ
  void by_weight(const Real* x, const Real* dy, Real* dweight) {
    apart(x, in_, wide_in_, x_);
    apart(dy, out_, wide_out_, y_);
    const int64_t columns = 2 * wide_out_;
    TileProduct<Real>{.rows = 2 * wide_in_,
                      .inner = rows_,
                      .columns = columns,
                      .a = x_.data(),
                      .a_row = 1,
                      .a_step = 2 * wide_in_,
                      .b = y_.data(),
                      .b_row = columns,
                      .c = w_.data(),
                      .c_row = columns}
        .run();
    for (int64_t i = 0; i < in_; ++i) {
      const Real* real = w_.data() + i * columns;
      const Real* imaginary = real + wide_in_ * columns;
      for (int64_t o = 0; o < out_; ++o) {
        Real* to = dweight + 2 * (i * out_ + o);
        to[0] = real[o] + imaginary[wide_out_ + o];
        to[1] = real[wide_out_ + o] - imaginary[o];
      }
    }
  }

 private:
  static int64_t padded(int64_t n) {
    constexpr int64_t kWidth = Lanes<Real>::kWidth;
    return (n + kWidth - 1) / kWidth * kWidth;
  }

  // Rows of n complex numbers to their two halves.
  void apart(const Real* from, int64_t n, int64_t wide,
             std::vector<Real>& to) const {
    for (int64_t r = 0; r < rows_; ++r) {
      Real* row = to.data() + r * 2 * wide;
      for (int64_t k = 0; k < n; ++k) {
        row[k] = from[2 * (r * n + k)];
        row[wide + k] = from[2 * (r * n + k) + 1];
      }
    }
  }
  void together(const std::vector<Real>& from, int64_t n, int64_t wide,
                Real* to) const {
    for (int64_t r = 0; r < rows_; ++r) {
      const Real* row = from.data() + r * 2 * wide;
      for (int64_t k = 0; k < n; ++k) {
        to[2 * (r * n + k)] = row[k];
        to[2 * (r * n + k) + 1] = row[wide + k];
      }
    }
  }
  // Number (i, j) of the complex matrix, of `height` by `width` with zeros.
  void put(int64_t i, int64_t j, int64_t height, int64_t width,
           const Real* number) {
    Real* upper = w_.data() + i * 2 * width + j;
    Real* lower = upper + height * 2 * width;
    upper[0] = lower[width] = number[0];
    upper[width] = number[1];
    lower[0] = -number[1];
  }
  void multiply(const std::vector<Real>& from, int64_t height, int64_t width,
                std::vector<Real>& to) const {
    TileProduct<Real>{.rows = rows_,
                      .inner = 2 * height,
                      .columns = 2 * width,
                      .a = from.data(),
                      .a_row = 2 * height,
                      .b = w_.data(),
                      .b_row = 2 * width,
                      .c = to.data(),
                      .c_row = 2 * width}
        .run();
  }

  int64_t rows_, in_, out_, wide_in_, wide_out_;
  std::vector<Real> x_, y_, w_;  // zeros where nothing is put
};

struct Sizes {
  int64_t modes, rows, in, out;

  int64_t x() const { return 2 * rows * in; }
  int64_t y() const { return 2 * rows * out; }
  int64_t weight() const { return 2 * in * out; }
};

// Calls work(products, k) for each frequency.
template <class Real, class Work>
void for_each_mode(const Sizes& s, const Work& work) {
  at::parallel_for(0, s.modes, 1, [&](int64_t from, int64_t to) {
    ModeProducts<Real> products(s.rows, s.in, s.out);
    for (int64_t k = from; k < to; ++k) work(products, k);
  });
}

template <class Real>
Tensor fused_modes(const Tensor& x, const Tensor& weight) {
  const auto a = x.detach().contiguous(), w = weight.detach().contiguous();
  const Sizes s{a.size(0), a.size(1), a.size(2), w.size(2)};
  const auto y = torch::empty({s.modes, s.rows, s.out, 2}, a.options());
  for_each_mode<Real>(s, [&](ModeProducts<Real>& products, int64_t k) {
    products.forward(a.data_ptr<Real>() + k * s.x(),
                     w.data_ptr<Real>() + k * s.weight(),
                     y.data_ptr<Real>() + k * s.y());
  });
  if (!torch::autograd::compute_requires_grad(x, weight)) return y;
  ListFunction::record(
      {y}, {x, weight},
      [a, w, s](const Tensors& gradients, const ListFunction& node) -> Tensors {
        const auto dy = gradients[0].contiguous();
        const auto made = [&](size_t n, const Tensor& like) {
          return node.wants(n) ? torch::empty_like(like) : Tensor();
        };
        const Tensor dx = made(0, a), dw = made(1, w);
        if (dw.defined()) {
          for_each_mode<Real>(s, [&](ModeProducts<Real>& products, int64_t k) {
            products.by_weight(a.data_ptr<Real>() + k * s.x(),
                               dy.data_ptr<Real>() + k * s.y(),
                               dw.data_ptr<Real>() + k * s.weight());
          });
        }
        if (dx.defined()) {
          for_each_mode<Real>(s, [&](ModeProducts<Real>& products, int64_t k) {
            products.by_x(dy.data_ptr<Real>() + k * s.y(),
                          w.data_ptr<Real>() + k * s.weight(),
                          dx.data_ptr<Real>() + k * s.x());
          });
        }
        return {dx, dw};
      });
  return y;
}

}  // namespace

Tensor mode_product(const Tensor& x, const Tensor& weight) {
  RECORD_FUNCTION("propagator::mode_product",
                  c10::ArrayRef<const c10::IValue>({x, weight}));
  const auto type = x.scalar_type();
  const bool fits = x.is_cpu() && x.numel() > 0 && weight.numel() > 0 &&
                    weight.scalar_type() == type &&
                    !autocast_enabled(x.device());
  if (fits && type == torch::kFloat32) return fused_modes<float>(x, weight);
  if (fits && type == torch::kFloat64) return fused_modes<double>(x, weight);
  return mode_product_reference(x, weight);
}

Tensor mode_product_reference(const Tensor& x, const Tensor& weight) {
  // There are no complex numbers in bf16, which a product before may give.
  const auto same = x.to(weight.scalar_type()).contiguous();
  return torch::view_as_real(
      torch::bmm(torch::view_as_complex(same), torch::view_as_complex(weight)));
}

}  // namespace propagator::kernels
