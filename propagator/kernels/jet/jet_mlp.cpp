#include "propagator/kernels/jet/jet_mlp.h"

#include <ATen/Parallel.h>
#include <torch/utils.h>

#include <algorithm>

#include "propagator/kernels/jet/jet_mlp_tile.h"
#include "propagator/kernels/list_function.h"

namespace propagator::kernels {
namespace {

using torch::Tensor;
using Tensors = torch::autograd::variable_list;

constexpr int64_t kParts = 16;  // of all points, which sum by themselves
constexpr int64_t kWidest = 64;

template <class Real>
JetMlpLayers<Real> packed(const JetMlp& net) {
  JetMlpLayers<Real> all;
  all.activation = net.activation;
  all.series = net.series;
  int64_t begin = 0;
  for (size_t l = 0; l < net.weights.size(); ++l) {
    const auto weight = net.weights[l].detach().contiguous();
    const auto bias = net.biases[l].detach().contiguous();
    const int64_t out = weight.size(0), in = weight.size(1);
    auto& layer = all.layers.emplace_back(
        typename JetMlpLayers<Real>::Layer{in, out, {}, begin});
    layer.weight.reserve(static_cast<size_t>(layer.numbers()));
    const Real scale = static_cast<Real>(net.scales[l]);
    const Real *w = weight.template data_ptr<Real>(),
               *b = bias.template data_ptr<Real>();
    for (int64_t o = 0; o < out; ++o) {
      for (int64_t i = 0; i < in; ++i) {
        layer.weight.push_back(scale * w[o * in + i]);
      }
      layer.weight.push_back(scale * b[o]);
    }
    begin += layer.numbers();
  }
  return all;
}

// The same network at many points, tile by tile. Of rows (M, N, in) and
// (M, N, out).
template <class Real>
class Points {
 public:
  Points(JetMlpLayers<Real> network, const Tensor& rows)
      : network_(std::move(network)),
        rows_(rows),
        count_(rows.size(1)),
        tiles_((count_ + kTile - 1) / kTile) {}

  Tensor forward() const {
    const auto out = torch::empty(
        {rows_.size(0), count_, network_.layers.back().out}, rows_.options());
    for_tiles(
        [&](JetMlpTile<Real>& tile, int64_t, int64_t first, int64_t here) {
          take(tile, first, here);
          tile.forward();
          const int64_t width = out.size(2);
          for (int64_t f = 0; f < width; ++f) {
            copy(out, f, first, here,
                 [&](int64_t at, Real& to) { to = tile.output(f)[at]; });
          }
        });
    return out;
  }

  // The gradient by all numbers of the layers (numbers), and by the rows if
  // `dx` is defined.
  std::vector<Real> backward(const Tensor& dy, const Tensor& dx) const {
    const auto numbers = static_cast<size_t>(network_.numbers());
    std::vector<Real> sums(numbers * kParts);
    for_tiles(
        [&](JetMlpTile<Real>& tile, int64_t part, int64_t first, int64_t here) {
          take(tile, first, here);
          tile.forward();
          seed(tile, dy, first, here);
          tile.add_gradient(sums.data() + numbers * static_cast<size_t>(part),
                            dx.defined());
          for (int64_t d = 0; dx.defined() && d < dx.size(2); ++d) {
            copy(dx, d, first, here,
                 [&](int64_t at, Real& to) { to = tile.gradient(d)[at]; });
          }
        });
    for (size_t part = 1; part < kParts; ++part) {
      for (size_t n = 0; n < numbers; ++n) sums[n] += sums[part * numbers + n];
    }
    sums.resize(numbers);
    return sums;
  }

  // `places`: of each number of the layers, its row of `into`.
  void add_point_gradients(const Tensor& dy, const std::vector<Real>& scales,
                           const std::vector<int64_t>& places,
                           Tensor& into) const {
    for_tiles(
        [&](JetMlpTile<Real>& tile, int64_t, int64_t first, int64_t here) {
          take(tile, first, here);
          tile.forward();
          seed(tile, dy, first, here);
          tile.add_point_gradients(into.data_ptr<Real>() + first,
                                   into.stride(0), here, scales, places);
        });
  }

 private:
  static constexpr int64_t kTile = JetMlpTile<Real>::kPoints;

  // work(tile, part, first point, points of it), each part on one thread.
  template <class Work>
  void for_tiles(Work&& work) const {
    at::parallel_for(0, kParts, 1, [&](int64_t from, int64_t to) {
      JetMlpTile<Real> tile(network_);
      for (int64_t part = from; part < to; ++part) {
        const int64_t end = tiles_ * (part + 1) / kParts;
        for (int64_t t = tiles_ * part / kParts; t < end; ++t) {
          work(tile, part, t * kTile, std::min(kTile, count_ - t * kTile));
        }
      }
    });
  }

  // each(place in a unit of the tile, number of the tensor) of column d.
  template <class Each>
  void copy(const Tensor& all, int64_t d, int64_t first, int64_t here,
            Each&& each) const {
    const int64_t width = all.size(2);
    for (int64_t m = 0; m < all.size(0); ++m) {
      Real* row = all.data_ptr<Real>() + (m * count_ + first) * width + d;
      for (int64_t p = 0; p < here; ++p) each(m * kTile + p, row[p * width]);
    }
  }
  void take(JetMlpTile<Real>& tile, int64_t first, int64_t here) const {
    for (int64_t d = 0; d < rows_.size(2); ++d) {
      if (here < kTile) {
        std::fill_n(tile.input(d), rows_.size(0) * kTile, Real(0));
      }
      copy(rows_, d, first, here,
           [&](int64_t at, Real& from) { tile.input(d)[at] = from; });
    }
  }
  void seed(JetMlpTile<Real>& tile, const Tensor& dy, int64_t first,
            int64_t here) const {
    for (int64_t f = 0; f < dy.size(2); ++f) {
      if (here < kTile) {
        std::fill_n(tile.gradient(f), dy.size(0) * kTile, Real(0));
      }
      copy(dy, f, first, here,
           [&](int64_t at, Real& from) { tile.gradient(f)[at] = from; });
    }
  }

  JetMlpLayers<Real> network_;
  Tensor rows_;
  int64_t count_, tiles_;
};

Tensor as_points(const Tensor& rows) {
  return rows.reshape({rows.size(0), -1, rows.size(-1)}).contiguous();
}

// Of weight and bias of each layer, in turn.
template <class Real>
Tensors unpacked(const std::vector<Real>& sums, const JetMlp& net) {
  Tensors all;
  const Real* from = sums.data();
  for (size_t l = 0; l < net.weights.size(); ++l) {
    const auto weight = torch::empty(
        net.weights[l].sizes(), net.weights[l].options().requires_grad(false));
    const auto bias = torch::empty({weight.size(0)}, weight.options());
    const Real scale = static_cast<Real>(net.scales[l]);
    Real* w = weight.template data_ptr<Real>();
    for (int64_t o = 0; o < weight.size(0); ++o) {
      for (int64_t i = 0; i < weight.size(1); ++i) *w++ = scale * *from++;
      bias.template data_ptr<Real>()[o] = scale * *from++;
    }
    all.push_back(weight);
    all.push_back(bias);
  }
  return all;
}

template <class Real>
Tensor fused(const Tensor& input, const JetMlp& net) {
  const auto shape = input.sizes().vec();
  Points<Real> points(packed<Real>(net), as_points(input.detach()));
  auto out_shape = shape;
  out_shape.back() = net.weights.back().size(0);
  const auto y = points.forward().view(out_shape);
  Tensors inputs{input};
  for (size_t l = 0; l < net.weights.size(); ++l) {
    inputs.push_back(net.weights[l]);
    inputs.push_back(net.biases[l]);
  }
  if (!torch::autograd::compute_requires_grad(inputs)) return y;
  // A copy that does not hold on to the graph.
  auto plain = net;
  for (auto* all : {&plain.weights, &plain.biases}) {
    for (auto& one : *all) one = one.detach();
  }
  auto backward = [points = std::move(points), plain = std::move(plain), shape](
                      const Tensors& gradients, const ListFunction& node) {
    const auto dy = as_points(gradients[0]);
    Tensor dx;
    if (node.wants(0)) {
      dx = torch::empty({dy.size(0), dy.size(1), shape.back()}, dy.options());
    }
    const auto sums = points.backward(dy, dx);
    Tensors all{dx.defined() ? dx.view(shape) : dx};
    for (auto& one : unpacked(sums, plain)) all.push_back(std::move(one));
    return all;
  };
  ListFunction::record({y}, inputs, std::move(backward));
  return y;
}

template <class Real>
void add_gradients(const Tensor& rows, const JetMlp& net, const Tensor& dy,
                   const std::vector<int64_t>& weight_at,
                   const std::vector<int64_t>& bias_at, Tensor& into) {
  std::vector<int64_t> places;
  std::vector<Real> scales;
  for (size_t l = 0; l < net.weights.size(); ++l) {
    const int64_t in = net.weights[l].size(1);
    scales.push_back(static_cast<Real>(net.scales[l]));
    for (int64_t o = 0; o < net.weights[l].size(0); ++o) {
      for (int64_t i = 0; i < in; ++i) {
        places.push_back(weight_at[l] + o * in + i);
      }
      places.push_back(bias_at[l] + o);
    }
  }
  Points<Real>(packed<Real>(net), as_points(rows.detach()))
      .add_point_gradients(as_points(dy), scales, places, into);
}

}  // namespace

bool has_jet_mlp(const Tensor& rows, const JetMlp& net) {
  const auto type = rows.scalar_type();
  const bool fits = rows.is_cpu() && rows.numel() > 0 &&
                    (type == torch::kFloat32 || type == torch::kFloat64) &&
                    net.series.order() <= JetSeries::kMostOrder;
  return fits && std::ranges::all_of(net.weights, [&](const Tensor& weight) {
           return weight.is_cpu() && weight.scalar_type() == type &&
                  weight.size(0) <= kWidest && weight.size(1) <= kWidest;
         });
}

Tensor jet_mlp(const Tensor& rows, const JetMlp& net) {
  return rows.scalar_type() == torch::kFloat32 ? fused<float>(rows, net)
                                               : fused<double>(rows, net);
}

void add_jet_mlp_point_gradients(const Tensor& rows, const JetMlp& net,
                                 const Tensor& gradient,
                                 const std::vector<int64_t>& weight_at,
                                 const std::vector<int64_t>& bias_at,
                                 Tensor into) {
  if (rows.scalar_type() == torch::kFloat32) {
    add_gradients<float>(rows, net, gradient, weight_at, bias_at, into);
  } else {
    add_gradients<double>(rows, net, gradient, weight_at, bias_at, into);
  }
}

}  // namespace propagator::kernels
