#include "propagator/autodiff/mlp.h"

#include "propagator/autodiff/point_gradients.h"

namespace propagator::autodiff {
namespace {

using torch::Tensor;

Tensor scaled(const Tensor& weight, double scale) {
  return scale == 1 ? weight : weight * scale;
}

// The meaning of the kernel.
Jet layer_by_layer(const Jet& x, const kernels::JetMlp& net) {
  auto h = x;
  for (size_t l = 0; l < net.weights.size(); ++l) {
    const auto& weight = net.weights[l];
    const auto& bias = net.biases[l];
    // The scale in the weights, of which there are fewer than of h.
    const auto z =
        linear(h, scaled(weight, net.scales[l]), scaled(bias, net.scales[l]));
    PointGradients::note_layer(
        {h.rows(), z.rows(), weight, bias, net.scales[l]});
    if (l + 1 == net.weights.size()) return z;
    h = net.activation == kernels::JetActivation::kTanh ? tanh(z) : sin(z);
  }
  return h;
}

}  // namespace

kernels::JetSeries series_of(const JetLayout& layout) {
  kernels::JetSeries series;
  series.rows = layout.rows();
  for (int64_t d = 0; d < layout.directions(1); ++d) {
    auto& direction = series.directions.emplace_back();
    for (int64_t k = 1; k <= layout.order() && d < layout.directions(k); ++k) {
      direction.order = k;
      direction.row[static_cast<size_t>(k)] = layout.row(d, k);
    }
    if (direction.order < 2 || !layout.is_summed_at(2)) continue;
    direction.sign = layout.orders().sign(d + 1);
    direction.opens = d == 0;
  }
  return series;
}

Jet mlp(const Jet& x, kernels::JetMlp net) {
  const int64_t order = x.layout().order();
  // A constant may be differentiated again.
  const bool once = order > 0 || allows_kernels(x);
  if (once && order <= kernels::JetSeries::kMostOrder) {
    net.series = series_of(x.layout());
    if (kernels::has_jet_mlp(x.rows(), net)) {
      Jet y(kernels::jet_mlp(x.rows(), net), x.layout());
      PointGradients::note_network({x.rows().detach(), y.rows(), net});
      return y;
    }
  }
  return layer_by_layer(x, net);
}

}  // namespace propagator::autodiff
