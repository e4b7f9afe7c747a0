#pragma once

#include <algorithm>
#include <vector>

#include "propagator/kernels/jet/jet_activation.h"
#include "propagator/kernels/tile_product.h"

namespace propagator::kernels {

// c[i, j] += Σ_k a[i, k] b[j, k] over whole vectors: products of rows with
// rows, as a gradient of weights is.
template <class Real>
struct TileDots {
  int64_t rows, columns, inner;
  const Real *a, *b;
  int64_t a_row, b_row;
  Real* c;  // (rows, columns)

  void run() const {
    for (int64_t i = 0; i < rows; i += kRows) {
      strip<kRows>(i, std::min(kRows, rows - i));
    }
  }

 private:
  using Vector = typename Lanes<Real>::Vector;
  static constexpr int64_t kRows = 4, kColumns = 3;

  template <int64_t kHere>
  void strip(int64_t i, int64_t count) const {
    if (count < kHere) {
      if constexpr (kHere > 1) strip<kHere - 1>(i, count);
      return;
    }
    int64_t j = 0;
    for (; j + kColumns <= columns; j += kColumns) tile<kHere, kColumns>(i, j);
    for (; j < columns; ++j) tile<kHere, 1>(i, j);
  }

  template <int64_t kDown, int64_t kAcross>
  void tile(int64_t i, int64_t j) const {
    Vector sum[kDown][kAcross] = {};
    const Real *x = a + i * a_row, *y = b + j * b_row;
    for (int64_t k = 0; k < inner; k += Lanes<Real>::kWidth) {
      Vector across[kAcross];
      for (int64_t s = 0; s < kAcross; ++s) {
        across[s] = Lanes<Real>::load(y + s * b_row + k);
      }
      for (int64_t r = 0; r < kDown; ++r) {
        const Vector down = Lanes<Real>::load(x + r * a_row + k);
        for (int64_t s = 0; s < kAcross; ++s) sum[r][s] += down * across[s];
      }
    }
    for (int64_t r = 0; r < kDown; ++r) {
      for (int64_t s = 0; s < kAcross; ++s) {
        c[(i + r) * columns + j + s] += Lanes<Real>::sum(sum[r][s]);
      }
    }
  }
};

// The layers of a network with a jet for every unit: weights (out, in + 1),
// whose last column is the bias.
template <class Real>
struct JetMlpLayers {
  struct Layer {
    int64_t in, out;
    std::vector<Real> weight;
    int64_t begin;  // among all numbers of all layers

    int64_t numbers() const { return out * (in + 1); }
  };
  std::vector<Layer> layers;
  JetActivation activation = JetActivation::kTanh;
  JetSeries series;

  int64_t numbers() const {
    return layers.back().begin + layers.back().numbers();
  }
};

// Some points on their way through all layers. A unit has its rows one after
// the other, each with kPoints numbers, so that products with weights and
// activations work on whole vectors whatever the width; a last unit of every
// layer is the one that the bias multiplies.
template <class Real>
class JetMlpTile {
 public:
  static constexpr int64_t kPoints = 64;

  explicit JetMlpTile(const JetMlpLayers<Real>& network)
      : network_(network),
        columns_(network.series.rows * kPoints),
        stride_(columns_ + 64 / static_cast<int64_t>(sizeof(Real))) {
    int64_t widest = 0;
    for (const auto& layer : network.layers) {
      inputs_.emplace_back(static_cast<size_t>((layer.in + 1) * stride_));
      std::fill_n(inputs_.back().data() + layer.in * stride_, kPoints, Real(1));
      sums_.emplace_back(static_cast<size_t>(layer.out * stride_));
      slopes_.emplace_back(static_cast<size_t>(layer.out * kPoints));
      widest = std::max({widest, layer.in, layer.out});
    }
    for (auto& one : gradient_) {
      one.resize(static_cast<size_t>(widest * stride_));
    }
  }

  int64_t stride() const { return stride_; }
  // Unit d's rows: of the inputs, of the outputs, and of the gradient by the
  // outputs, which `backward` begins with and by the inputs, where it ends.
  Real* input(int64_t d) { return inputs_.front().data() + d * stride_; }
  const Real* output(int64_t f) const {
    return sums_.back().data() + f * stride_;
  }
  Real* gradient(int64_t d) { return gradient_[now_].data() + d * stride_; }

  void forward() {
    for (size_t l = 0; l < network_.layers.size(); ++l) {
      const auto& layer = network_.layers[l];
      TileProduct<Real>{.rows = layer.out,
                        .inner = layer.in + 1,
                        .columns = columns_,
                        .a = layer.weight.data(),
                        .a_row = layer.in + 1,
                        .b = inputs_[l].data(),
                        .b_row = stride_,
                        .c = sums_[l].data(),
                        .c_row = stride_}
          .run();
      if (l + 1 < network_.layers.size()) activate(l);
    }
  }

  // Calls with_layer(l, gradient by the sums of layer l, its inputs) for every
  // layer, the last first. `to_inputs`: also goes through the first one.
  template <class WithLayer>
  void backward(bool to_inputs, WithLayer&& with_layer) {
    for (size_t l = network_.layers.size(); l-- > 0;) {
      const auto& layer = network_.layers[l];
      if (l + 1 < network_.layers.size()) deactivate(l);
      with_layer(l, gradient_[now_].data(), inputs_[l].data());
      if (l == 0 && !to_inputs) return;
      TileProduct<Real>{.rows = layer.in,
                        .inner = layer.out,
                        .columns = columns_,
                        .a = layer.weight.data(),
                        .a_row = 1,
                        .a_step = layer.in + 1,
                        .b = gradient_[now_].data(),
                        .b_row = stride_,
                        .c = gradient_[1 - now_].data(),
                        .c_row = stride_}
          .run();
      now_ = 1 - now_;
    }
  }

  // Adds the gradient by all weights to `sums`, as they lie in the layers.
  void add_gradient(Real* sums, bool to_inputs) {
    backward(to_inputs, [&](size_t l, const Real* grad, const Real* inputs) {
      const auto& layer = network_.layers[l];
      TileDots<Real>{.rows = layer.out,
                     .columns = layer.in + 1,
                     .inner = columns_,
                     .a = grad,
                     .b = inputs,
                     .a_row = stride_,
                     .b_row = stride_,
                     .c = sums + layer.begin}
          .run();
    });
  }

  // The gradient by all weights of each of the first `count` points, those of
  // layer l times scales[l]: number q of all layers at point p is added to
  // to[places[q] · row + p].
  void add_point_gradients(Real* to, int64_t row, int64_t count,
                           const std::vector<Real>& scales,
                           const std::vector<int64_t>& places) {
    backward(false, [&](size_t l, const Real* grad, const Real* inputs) {
      const auto& layer = network_.layers[l];
      for (int64_t q = 0; q < layer.numbers(); ++q) {
        add_products(grad + q / (layer.in + 1) * stride_,
                     inputs + q % (layer.in + 1) * stride_, scales[l],
                     to + places[static_cast<size_t>(layer.begin + q)] * row,
                     count);
      }
    });
  }

 private:
  template <class Work>
  void with_order(Work&& work) {
    switch (network_.series.order()) {
      case 0:
      case 1:
        return work(ActivatedJet<Real, 1>());
      case 2:
        return work(ActivatedJet<Real, 2>());
      case 3:
        return work(ActivatedJet<Real, 3>());
      default:
        return work(ActivatedJet<Real, 4>());
    }
  }

  // to[p] += scale Σ_m a[m, p] b[m, p]
  void add_products(const Real* a, const Real* b, Real scale, Real* to,
                    int64_t count) const {
    using Vector = typename Lanes<Real>::Vector;
    constexpr int64_t kWidth = Lanes<Real>::kWidth;
    for (int64_t p = 0; p < count; p += kWidth) {
      Vector sum = {};
      for (int64_t m = p; m < columns_; m += kPoints) {
        sum += Lanes<Real>::load(a + m) * Lanes<Real>::load(b + m);
      }
      sum *= scale;
      if (p + kWidth <= count) {
        Lanes<Real>::store(sum + Lanes<Real>::load(to + p), to + p);
      } else {
        for (int64_t n = p; n < count; ++n) to[n] += sum[n - p];
      }
    }
  }

  UnitRows<Real> at(std::vector<Real>& all, int64_t unit, int64_t point) {
    return {all.data() + unit * stride_ + point, kPoints};
  }

  void activate(size_t l) {
    with_order([&](auto jet) {
      for (int64_t u = 0; u < network_.layers[l].out; ++u) {
        for (int64_t p = 0; p < kPoints; p += Lanes<Real>::kWidth) {
          jet.forward(network_.activation, network_.series, at(sums_[l], u, p),
                      at(inputs_[l + 1], u, p),
                      slopes_[l].data() + u * kPoints + p);
        }
      }
    });
  }

  void deactivate(size_t l) {
    with_order([&](auto jet) {
      for (int64_t u = 0; u < network_.layers[l].out; ++u) {
        for (int64_t p = 0; p < kPoints; p += Lanes<Real>::kWidth) {
          jet.backward(network_.activation, network_.series, at(sums_[l], u, p),
                       at(inputs_[l + 1], u, p),
                       slopes_[l].data() + u * kPoints + p,
                       at(gradient_[now_], u, p));
        }
      }
    });
  }

  const JetMlpLayers<Real>& network_;
  int64_t columns_, stride_;
  std::vector<std::vector<Real>> inputs_, sums_, slopes_;  // of each layer
  std::vector<Real> gradient_[2];
  size_t now_ = 0;
};

}  // namespace propagator::kernels
