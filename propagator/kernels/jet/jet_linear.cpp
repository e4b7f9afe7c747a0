#include "propagator/kernels/jet/jet_linear.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "propagator/kernels/column_sums.h"
#include "propagator/kernels/cuda.h"
#include "propagator/kernels/jet/jet_wavelet.h"
#include "propagator/kernels/product.h"

namespace propagator::kernels {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// From here on, in bytes, the waves are made twice in the backward pass, so
// that they are gone when their gradient comes.
constexpr int64_t kLargeWaves = int64_t{1} << 28;

Tensor as_matrix(const Tensor& x) { return x.reshape({-1, x.size(-1)}); }

Tensor linear_values(const Tensor& rows, const Tensor& weight,
                     const Tensor& bias) {
  const auto out = empty_output(rows, weight);
  const auto x = as_matrix(rows), y = as_matrix(out);
  const int64_t values = x.size(0) / rows.size(0);
  const auto part = [&](const Tensor& all, bool of_values) {
    return of_values ? all.narrow(0, 0, values)
                     : all.narrow(0, values, all.size(0) - values);
  };
  product(part(y, true), part(x, true), weight.t(), {.bias = bias});
  if (rows.size(0) > 1) product(part(y, false), part(x, false), weight.t());
  return out;
}

bool is_small(const Tensor& rows, const Tensor& weight) {
  return rows.is_cuda() && small_jet_linear_cuda_fits(rows, weight);
}
bool is_dot(const Tensor& rows, const Tensor& weight) {
  return rows.is_cuda() && jet_wavelet_dot_cuda_fits(rows, weight);
}

// Which gradients somebody asks for; those of frozen parameters nobody does.
struct Asked {
  bool weight, bias;
  bool any() const { return weight || bias; }
};

JetLinearGradients weight_gradients(const Tensor& rows, const Tensor& dy,
                                    const Asked& asked) {
  const auto x = as_matrix(rows), d = as_matrix(dy);
  const auto values = d.narrow(0, 0, d.size(0) / dy.size(0));
  return {Tensor(), asked.weight ? torch::mm(d.t(), x) : Tensor(),
          asked.bias ? column_sums(values) : Tensor()};
}

// The same matrix. The product library multiplies large ones faster by a
// transpose, as in the forward pass, which costs a copy.
Tensor faster_in_backward(const Tensor& weight) {
  const bool is_large = std::min(weight.size(0), weight.size(1)) >= 256;
  return weight.is_cuda() && is_large ? weight.t().contiguous().t() : weight;
}

class JetLinear : public torch::autograd::Function<JetLinear> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& rows,
                        const Tensor& weight, const Tensor& bias) {
    context->save_for_backward({rows, weight});
    return is_small(rows, weight) ? small_jet_linear_cuda(rows, weight, bias)
                                  : linear_values(rows, weight, bias);
  }

  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &rows = saved[0], &weight = saved[1];
    const auto dy = gradients[0].contiguous();
    const bool of_rows = context->needs_input_grad(0);
    const Asked asked{context->needs_input_grad(1),
                      context->needs_input_grad(2)};
    if (asked.any() && is_small(rows, weight)) {
      const auto d = small_jet_linear_backward_cuda(rows, dy, weight, of_rows);
      return {d.rows, d.weight, d.bias};
    }
    const auto d = weight_gradients(rows, dy, asked);
    return {of_rows ? torch::matmul(dy, weight) : Tensor(), d.weight, d.bias};
  }
};

class JetWaveletLinear : public torch::autograd::Function<JetWaveletLinear> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& rows,
                        const Tensor& w1, const Tensor& w2,
                        const Tensor& weight, const Tensor& bias,
                        int64_t orders) {
    const auto x = rows.contiguous();
    context->save_for_backward({x, w1, w2, weight});
    context->saved_data["orders"] = orders;
    const auto unpacked = JetOrders::unpacked(orders);
    return is_dot(x, weight)
               ? jet_wavelet_dot_cuda(x, w1, w2, weight, bias, unpacked)
               : linear_values(jet_wavelet_values(x, w1, w2, unpacked), weight,
                               bias);
  }

  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &w1 = saved[1], &w2 = saved[2],
               &weight = saved[3];
    const auto orders =
        JetOrders::unpacked(context->saved_data["orders"].toInt());
    const auto dy = gradients[0].contiguous();
    if (is_dot(x, weight)) {
      const auto d =
          jet_wavelet_dot_backward_cuda(x, dy, w1, w2, weight, orders);
      return {d.rows, d.waves.w1, d.waves.w2, d.weight, d.bias, Tensor()};
    }
    const Asked asked{context->needs_input_grad(3),
                      context->needs_input_grad(4)};
    JetLinearGradients d;
    Tensor waves;
    if (x.is_cuda() && x.nbytes() >= kLargeWaves && asked.weight) {
      d = weight_gradients(jet_wavelet_values(x, w1, w2, orders), dy, asked);
    } else if (asked.weight) {
      waves = torch::empty_like(x);
    }
    const auto dwaves = torch::matmul(dy, faster_in_backward(weight));
    // In its place where memory is short.
    const auto dx = x.is_cuda() ? dwaves : torch::empty_like(x);
    const auto dw = jet_wavelet_backward(x, dwaves, w1, w2, orders, dx, waves);
    if (!d.weight.defined()) {  // without waves, of the bias alone
      d = weight_gradients(waves.defined() ? waves : x, dy, asked);
    }
    return {dx, dw.w1, dw.w2, d.weight, d.bias, Tensor()};
  }
};

}  // namespace

Tensor jet_linear(const Tensor& rows, const Tensor& weight,
                  const Tensor& bias) {
  return JetLinear::apply(rows, weight, bias);
}

Tensor jet_wavelet_linear(const Tensor& rows, const Tensor& w1,
                          const Tensor& w2, const Tensor& weight,
                          const Tensor& bias, const JetOrders& orders) {
  return JetWaveletLinear::apply(rows, w1, w2, weight, bias, orders.packed());
}

Tensor jet_linear_reference(const Tensor& rows, const Tensor& weight,
                            const Tensor& bias) {
  const auto products = torch::matmul(rows, weight.t());
  return torch::cat({products.narrow(0, 0, 1) + bias,
                     products.narrow(0, 1, rows.size(0) - 1)});
}

}  // namespace propagator::kernels
