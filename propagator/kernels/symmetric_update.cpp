#include "propagator/kernels/symmetric_update.h"

#include <ATen/Parallel.h>
#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "propagator/kernels/lanes.h"

namespace propagator::kernels {
namespace {

using torch::Tensor;
using Vector = Lanes<double>::Vector;

constexpr int64_t kWidth = Lanes<double>::kWidth;
constexpr int64_t kParts = 16;  // of all rows, which sum by themselves
constexpr int64_t kRows = 4;    // at a time: they share what is read of vectors

// Rows of the triangle, each with its share of the product.
struct Triangle {
  int64_t n;
  double s;
  double* h;
  const double *p0, *p1, *q0, *q1, *g;

  // Where part k of kParts begins: parts of as many numbers.
  int64_t begin(int64_t part) const {
    if (part >= kParts) return n;
    const double share = static_cast<double>(part) / kParts;
    const auto row =
        static_cast<int64_t>(std::sqrt(share) * static_cast<double>(n));
    return row / kRows * kRows;
  }

  // Adds to y what the rows of a part give: each number twice, but for the
  // diagonal.
  void run(int64_t from, int64_t to, double* y) const {
    int64_t i = from;
    for (; i + kRows <= to; i += kRows) rows<kRows>(i, y);
    for (; i < to; ++i) rows<1>(i, y);
  }

 private:
  template <int64_t kHere>
  void rows(int64_t i, double* y) const {
    std::array<Vector, kHere> sums = {};
    int64_t j = 0;
    for (; j + kWidth <= i; j += kWidth) {
      const Vector a = Lanes<double>::load(q0 + j),
                   b = Lanes<double>::load(q1 + j),
                   c = Lanes<double>::load(g + j);
      Vector across = Lanes<double>::load(y + j);
      for (int64_t r = 0; r < kHere; ++r) {
        double* at = h + (i + r) * n + j;
        const Vector here =
            s * Lanes<double>::load(at) + p0[i + r] * a + p1[i + r] * b;
        Lanes<double>::store(here, at);
        sums[static_cast<size_t>(r)] += here * c;
        across += here * g[i + r];
      }
      Lanes<double>::store(across, y + j);
    }
    for (int64_t r = 0; r < kHere; ++r) {
      y[i + r] += Lanes<double>::sum(sums[static_cast<size_t>(r)]);
      for (int64_t k = j; k <= i + r; ++k) one(i + r, k, y);
    }
  }

  void one(int64_t i, int64_t j, double* y) const {
    double& here = h[i * n + j];
    here = s * here + p0[i] * q0[j] + p1[i] * q1[j];
    y[i] += here * g[j];
    if (j < i) y[j] += here * g[i];
  }
};

Tensor fused(const Tensor& h, double s, const Tensor& p, const Tensor& q,
             const Tensor& g) {
  const int64_t n = h.size(0);
  const double *p0 = p.data_ptr<double>(), *q0 = q.data_ptr<double>();
  const Triangle triangle{n,  s,      h.data_ptr<double>(), p0, p0 + n,
                          q0, q0 + n, g.data_ptr<double>()};
  const auto sums = torch::zeros({kParts, n}, h.options());
  at::parallel_for(0, kParts, 1, [&](int64_t from, int64_t to) {
    for (int64_t part = from; part < to; ++part) {
      triangle.run(triangle.begin(part), triangle.begin(part + 1),
                   sums.data_ptr<double>() + part * n);
    }
  });
  return sums.sum(0);
}

}  // namespace

Tensor symmetric_update(Tensor h, double s, const Tensor& p, const Tensor& q,
                        const Tensor& g) {
  const bool fits = h.is_cpu() && h.scalar_type() == torch::kFloat64 &&
                    h.is_contiguous() && h.numel() > 0;
  return fits ? fused(h, s, p.contiguous(), q.contiguous(), g.contiguous())
              : symmetric_update_reference(h, s, p, q, g);
}

Tensor symmetric_update_reference(Tensor h, double s, const Tensor& p,
                                  const Tensor& q, const Tensor& g) {
  h.addmm_(p.t(), q, s);
  return h.mv(g);
}

void mirror_lower(Tensor h) {
  h.tril_();
  h.add_(h.tril(-1).t());
}

}  // namespace propagator::kernels
