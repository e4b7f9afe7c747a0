#include "propagator/kernels/jet_linear.h"

#include <torch/csrc/autograd/custom_function.h>

#include "propagator/kernels/column_sums.h"
#include "propagator/kernels/jet_waves.h"
#include "propagator/kernels/product.h"

namespace propagator::kernels {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor as_matrix(const Tensor& x) { return x.reshape({-1, x.size(-1)}); }

Tensor linear_values(const Tensor& rows, const Tensor& weight,
                     const Tensor& bias) {
  auto shape = rows.sizes().vec();
  shape.back() = weight.size(0);
  const auto out = torch::empty(shape, rows.options());
  const auto x = as_matrix(rows), y = as_matrix(out);
  const int64_t values = x.size(0) / rows.size(0);
  const auto part = [&](const Tensor& all, bool of_values) {
    return of_values ? all.narrow(0, 0, values)
                     : all.narrow(0, values, all.size(0) - values);
  };
  product(part(y, true), part(x, true), weight.t(), {.bias = bias});
  product(part(y, false), part(x, false), weight.t());
  return out;
}

struct LayerGradients {
  Tensor weight, bias;
};

LayerGradients layer_gradients(const Tensor& rows, const Tensor& dy) {
  const auto x = as_matrix(rows), d = as_matrix(dy);
  auto bias = torch::zeros({d.size(1)}, d.options());
  add_column_sums(bias, d.narrow(0, 0, d.size(0) / dy.size(0)));
  return {torch::mm(d.t(), x), bias};
}

class JetLinear : public torch::autograd::Function<JetLinear> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& rows,
                        const Tensor& weight, const Tensor& bias) {
    context->save_for_backward({rows, weight});
    context->saved_data["of_rows"] = rows.requires_grad();
    return linear_values(rows, weight, bias);
  }

  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto dy = gradients[0].contiguous();
    const auto d = layer_gradients(saved[0], dy);
    const auto drows = context->saved_data["of_rows"].toBool()
                           ? torch::matmul(dy, saved[1])
                           : Tensor();
    return {drows, d.weight, d.bias};
  }
};

class JetWavesLinear : public torch::autograd::Function<JetWavesLinear> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& rows,
                        const Tensor& w1, const Tensor& w2,
                        const Tensor& weight, const Tensor& bias,
                        int64_t orders) {
    const auto x = rows.contiguous();
    context->save_for_backward({x, w1, w2, weight});
    context->saved_data["orders"] = orders;
    return linear_values(
        jet_waves_values(x, w1, w2, JetOrders::unpacked(orders)), weight, bias);
  }

  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &w1 = saved[1], &w2 = saved[2],
               &weight = saved[3];
    const auto orders =
        JetOrders::unpacked(context->saved_data["orders"].toInt());
    const auto dy = gradients[0].contiguous();
    const auto dwaves = torch::matmul(dy, weight);
    const auto waves = torch::empty_like(x);
    // In its place where memory is short.
    const auto dx = x.is_cuda() ? dwaves : torch::empty_like(x);
    const auto dw = jet_waves_backward(x, dwaves, w1, w2, orders, dx, waves);
    const auto d = layer_gradients(waves, dy);
    return {dx, dw.w1, dw.w2, d.weight, d.bias, Tensor()};
  }
};

}  // namespace

Tensor jet_linear(const Tensor& rows, const Tensor& weight,
                  const Tensor& bias) {
  return JetLinear::apply(rows, weight, bias);
}

Tensor jet_waves_linear(const Tensor& rows, const Tensor& w1, const Tensor& w2,
                        const Tensor& weight, const Tensor& bias,
                        const JetOrders& orders) {
  return JetWavesLinear::apply(rows, w1, w2, weight, bias, orders.packed());
}

Tensor jet_linear_reference(const Tensor& rows, const Tensor& weight,
                            const Tensor& bias) {
  const auto products = torch::matmul(rows, weight.t());
  return torch::cat({products.narrow(0, 0, 1) + bias,
                     products.narrow(0, 1, rows.size(0) - 1)});
}

}  // namespace propagator::kernels
