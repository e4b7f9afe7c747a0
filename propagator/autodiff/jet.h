#pragma once

#include <torch/types.h>

#include <vector>

#include "propagator/kernels/jet/jet_orders.h"

namespace propagator::autodiff {

// Which Taylor coefficients a jet carries: along each direction, how many.
// Directions come in order of falling order, so that those that still have a
// coefficient k are the first `directions(k)`.
//
// Where only Σ ±x_2 over directions is wanted, as for a Laplacian, one row can
// carry that sum: x_2 enters every coefficient of order 2 alone, without a
// factor of its direction, and what x_1 adds is summed as well.
class JetLayout {
 public:
  JetLayout() = default;  // the value alone
  explicit JetLayout(std::vector<int64_t> orders);
  // Of order 2, with one row for the sum, in which each direction of order 2
  // has a sign.
  static JetLayout summed(std::vector<int64_t> orders,
                          const std::vector<int>& signs);

  int64_t order() const { return orders_.empty() ? 0 : orders_.front(); }
  int64_t directions(int64_t k) const;
  // Of the value (row 0) and all coefficients together.
  int64_t rows() const { return rows_; }
  // The first row of the coefficients k, and the one of a direction.
  int64_t first_row(int64_t k) const;
  int64_t row(int64_t direction, int64_t k) const {
    return first_row(k) + (is_summed_at(k) ? 0 : direction);
  }
  bool is_summed_at(int64_t k) const { return k == 2 && summed_; }
  // Something of order 2 for each of these directions, as the layout has it.
  torch::Tensor together(const torch::Tensor& rows) const;
  // What the fused kernels need to know, of a layout of order 2 at most.
  kernels::JetOrders orders() const {
    return {order() > 0 ? directions(1) : 0, order() > 1 ? directions(2) : 0,
            summed_, minus_};
  }
  bool operator==(const JetLayout&) const = default;

 private:
  std::vector<int64_t> orders_;
  int64_t rows_ = 1;
  bool summed_ = false;
  uint32_t minus_ = 0;  // bit r: direction r has a minus
};

// A tensor x and its Taylor coefficients along directions d:
//   x(p + s d) = x_0 + x_1 s + x_2 s² + …,   ∂ᵏx/∂dᵏ = k! x_k.
// All rows lie in one tensor, (M, …): the value, which all directions share,
// then x_1 of every direction, then x_2 of those that have one (or their sum),
// and so on. A layer that is linear works on all rows at once; every other one
// is a Cauchy product or a composition (below). Gradients with respect to
// parameters are autograd's, through the rows.
class Jet {
 public:
  Jet() = default;
  Jet(torch::Tensor rows, JetLayout layout);
  // A value that does not move.
  static Jet constant(const torch::Tensor& value);
  // Points (…, D) that move along `directions`, (R, D), to the orders of the
  // layout: the input of a network.
  static Jet moving(const torch::Tensor& points,
                    const torch::Tensor& directions, const JetLayout& layout);

  const torch::Tensor& rows() const { return rows_; }  // (M, …)
  const JetLayout& layout() const { return layout_; }
  bool is_constant() const { return layout_.rows() == 1; }
  // Of a constant a view also in the backward pass, where an index makes zeros
  // and a copy.
  torch::Tensor value() const {
    return is_constant() ? rows_.squeeze(0) : rows_[0];
  }
  // x_0, x_1, …: (directions, …) each, or their sum.
  std::vector<torch::Tensor> coefficients() const;

  // The same linear map of the last dimensions applied to every row.
  template <class Map>
  Jet linear(Map&& map) const {
    return Jet(map(rows_), layout_);
  }

 private:
  torch::Tensor rows_;
  JetLayout layout_;
};

// Whether the fused kernels may take x: they work in float32 and float64, on
// the CPU and CUDA, to order 2, and have one derivative by their inputs, where
// that of a constant may need another.
bool allows_kernels(const Jet& x);

// While one lives, nothing that its thread computes is differentiated twice:
// the kernels may take constants too.
class DifferentiatedOnce {
 public:
  explicit DifferentiatedOnce(bool promised);
  ~DifferentiatedOnce();
  DifferentiatedOnce(const DifferentiatedOnce&) = delete;
  DifferentiatedOnce& operator=(const DifferentiatedOnce&) = delete;

 private:
  bool before_;
};

// Sums and products, entry by entry; shapes broadcast. One of two jets may be
// a constant; otherwise their layouts must be the same.
Jet operator+(const Jet& a, const Jet& b);
Jet operator-(const Jet& a, const Jet& b);
Jet operator-(const Jet& a);
Jet operator*(const Jet& a, const Jet& b);
Jet operator/(const Jet& a, const Jet& b);

// The same with a constant. A sum with one touches the value alone.
Jet operator+(const Jet& a, const torch::Tensor& b);
Jet operator*(const Jet& a, const torch::Tensor& b);
Jet operator+(const Jet& a, double b);
Jet operator*(const Jet& a, double b);
inline Jet operator*(double a, const Jet& b) { return b * a; }
inline Jet operator-(const Jet& a, double b) { return a + -b; }

// The product of matrices in the last two dimensions.
Jet matmul(const Jet& a, const Jet& b);

// x Wᵀ + b, with W (out, in); an undefined bias is none.
Jet linear(const Jet& x, const torch::Tensor& weight,
           const torch::Tensor& bias = {});

// f(x) entry by entry from the Taylor coefficients f⁽ʲ⁾(x_0)/j!, j = 0 … K.
Jet compose(const Jet& x, const std::vector<torch::Tensor>& f);

Jet sin(const Jet& x);
Jet cos(const Jet& x);
Jet tan(const Jet& x);
Jet exp(const Jet& x);
Jet log(const Jet& x);
Jet sqrt(const Jet& x);
Jet tanh(const Jet& x);
Jet sinh(const Jet& x);
Jet cosh(const Jet& x);
Jet sigmoid(const Jet& x);
Jet gelu(const Jet& x);  // x Φ(x), without approximation
Jet silu(const Jet& x);  // x / (1 + e⁻ˣ)
Jet softplus(const Jet& x);
Jet abs(const Jet& x);  // derivative 0 at 0
Jet reciprocal(const Jet& x);
Jet pow(const Jet& x, double exponent);
// w₁ sin x + w₂ cos x with scalar weights, the activation of PINNsFormer.
Jet waves(const Jet& x, const torch::Tensor& w1, const torch::Tensor& w2);
// linear(waves(x, w1, w2), weight, bias) in half the memory.
Jet linear_of_waves(const Jet& x, const torch::Tensor& w1,
                    const torch::Tensor& w2, const torch::Tensor& weight,
                    const torch::Tensor& bias);

// Over dimension `dim` of the value, counted from the end (-1 is the last).
Jet sum(const Jet& x, int64_t dim, bool keepdim);
Jet mean(const Jet& x, int64_t dim, bool keepdim);
Jet softmax(const Jet& x);  // over the last dimension
// LayerNorm over the last dimension; undefined weight and bias: 1 and 0.
Jet layer_norm(const Jet& x, const torch::Tensor& weight,
               const torch::Tensor& bias, double eps);
// Along dimension `dim` of the value, counted from the end.
Jet cat(const std::vector<Jet>& parts, int64_t dim);
Jet narrow(const Jet& x, int64_t dim, int64_t start, int64_t length);

}  // namespace propagator::autodiff
