#include "propagator/kernels/masked_mlp.h"

#include <ATen/Parallel.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "propagator/kernels/cuda.h"
#include "propagator/kernels/exp.h"
#include "propagator/kernels/list_function.h"
#include "propagator/kernels/tile_product.h"

namespace propagator::kernels {
namespace {

using torch::Tensor;
using Tensors = torch::autograd::variable_list;

constexpr int64_t kRows = 32;  // that go through the layers together
constexpr int64_t kParts =
    16;  // of all rows, which sum gradients by themselves
constexpr int64_t kWidest = 256;  // layer

int64_t count_of(const Tensors& layers) { return std::ssize(layers) / 3; }
const Tensor& weight_of(const Tensors& layers, int64_t n) {
  return layers[static_cast<size_t>(3 * n)];
}
const Tensor& bias_of(const Tensors& layers, int64_t n) {
  return layers[static_cast<size_t>(3 * n + 1)];
}
const Tensor& mask_of(const Tensors& layers, int64_t n) {
  return layers[static_cast<size_t>(3 * n + 2)];
}

template <class Real>
int64_t whole(int64_t columns) {
  constexpr int64_t kWidth = Lanes<Real>::kWidth;
  return (columns + kWidth - 1) / kWidth * kWidth;
}

// x and what it becomes: x σ(x), and the slope of that.
template <class Real>
struct Silu {
  Real value, slope;

  explicit Silu(Real x) {
    const Real e = exp_of_negative(-std::fabs(x));
    const Real share =
        Real(0.5) + std::copysign(Real(0.5) * (1 - e) / (1 + e), x);
    value = x * share;
    slope = share * (1 + x * (1 - share));
  }
};

// One layer with its masked weights, both ways round, columns filled up with
// zeros to whole vectors.
template <class Real>
struct MaskedWeights {
  int64_t in, out, in_columns, out_columns;
  std::vector<Real> across, along, bias;  // (in, out…), (out, in…), (out…)
  Tensor mask;

  MaskedWeights(const Tensors& layers, int64_t n)
      : in(weight_of(layers, n).size(1)),
        out(weight_of(layers, n).size(0)),
        in_columns(whole<Real>(in)),
        out_columns(whole<Real>(out)),
        across(static_cast<size_t>(in * out_columns)),
        along(static_cast<size_t>(out * in_columns)),
        bias(static_cast<size_t>(out_columns)),
        mask(mask_of(layers, n).contiguous()) {
    const auto weight = weight_of(layers, n).contiguous();
    const auto shift = bias_of(layers, n).contiguous();
    std::copy_n(shift.data_ptr<Real>(), out, bias.data());
    const Real *w = weight.data_ptr<Real>(), *m = mask.data_ptr<Real>();
    for (int64_t o = 0; o < out; ++o) {
      Real* row = along.data() + o * in_columns;
      for (int64_t i = 0; i < in; ++i) row[i] = w[o * in + i] * m[o * in + i];
      for (int64_t i = 0; i < in; ++i) {
        across[static_cast<size_t>(i * out_columns + o)] = row[i];
      }
    }
  }

  // to (rows, out…) = start + from (rows, in) · Wᵀ
  void forward(int64_t rows, const Real* from, int64_t from_row,
               const Real* start, int64_t start_row, Real* to) const {
    TileProduct<Real>{.rows = rows,
                      .inner = in,
                      .columns = out_columns,
                      .a = from,
                      .a_row = from_row,
                      .b = across.data(),
                      .b_row = out_columns,
                      .c = to,
                      .c_row = out_columns,
                      .start = start,
                      .start_row = start_row}
        .run();
  }
  // to (rows, in…) = from (rows, out) · W
  void backward(int64_t rows, const Real* from, int64_t from_row,
                Real* to) const {
    TileProduct<Real>{.rows = rows,
                      .inner = out,
                      .columns = in_columns,
                      .a = from,
                      .a_row = from_row,
                      .b = along.data(),
                      .b_row = in_columns,
                      .c = to,
                      .c_row = in_columns}
        .run();
  }
};

// What a part of the rows sums up for one layer: (out, in…) and (out).
template <class Real>
struct LayerSums {
  std::vector<Real> weight, bias;

  explicit LayerSums(const MaskedWeights<Real>& layer)
      : weight(static_cast<size_t>(layer.out * layer.in_columns)),
        bias(static_cast<size_t>(layer.out)) {}

  // += slopesᵀ · values, slopes (rows, out), values (rows, in…)
  void add(const MaskedWeights<Real>& layer, int64_t rows, const Real* slopes,
           int64_t slopes_row, const Real* values) {
    TileProduct<Real>{.rows = layer.out,
                      .inner = rows,
                      .columns = layer.in_columns,
                      .a = slopes,
                      .a_row = 1,
                      .a_step = slopes_row,
                      .b = values,
                      .b_row = layer.in_columns,
                      .c = weight.data(),
                      .c_row = layer.in_columns,
                      .start = weight.data(),
                      .start_row = layer.in_columns}
        .run();
    for (int64_t r = 0; r < rows; ++r) {
      const Real* row = slopes + r * slopes_row;
      for (int64_t c = 0; c < layer.out; ++c) {
        bias[static_cast<size_t>(c)] += row[c];
      }
    }
  }
};

// The network with its weights made ready; `hidden` (layers - 1, N, width…)
// has the a_n of all rows.
template <class Real>
class MaskedNet {
 public:
  explicit MaskedNet(const Tensors& layers) {
    for (int64_t n = 0; n < count_of(layers); ++n) {
      layers_.emplace_back(layers, n);
    }
  }

  Tensor hidden_for(const Tensor& x) const {
    return torch::empty({std::ssize(layers_) - 1, x.size(0), columns()},
                        x.options());
  }

  Tensor forward(const Tensor& x, const Tensor& hidden) const {
    const int64_t rows = x.size(0), width = columns();
    const auto& last = layers_.back();
    const Tensor y = torch::empty({rows, last.out}, x.options());
    const int64_t blocks = (rows + kRows - 1) / kRows;
    at::parallel_for(0, blocks, 2, [&](int64_t from, int64_t to) {
      std::vector<Real> active(static_cast<size_t>(kRows * width)),
          answer(static_cast<size_t>(kRows * last.out_columns));
      for (int64_t b = from; b < to; ++b) {
        const int64_t first = b * kRows, count = std::min(kRows, rows - first);
        forward_rows(x, hidden, first, count, active.data());
        last.forward(count, active.data(), width, last.bias.data(), 0,
                     answer.data());
        for (int64_t r = 0; r < count; ++r) {
          std::copy_n(answer.data() + r * last.out_columns, last.out,
                      y.data_ptr<Real>() + (first + r) * last.out);
        }
      }
    });
    return y;
  }

  // Gradients of x, if it is defined, and of each layer's weight and bias.
  Tensors backward(const Tensor& x, const Tensor& hidden, const Tensor& dy,
                   const Tensor& dx) const {
    std::vector<std::vector<LayerSums<Real>>> sums(
        kParts, {layers_.begin(), layers_.end()});
    const int64_t rows = x.size(0);
    const int64_t blocks = (rows + kRows - 1) / kRows;
    at::parallel_for(0, kParts, 1, [&](int64_t from, int64_t to) {
      for (int64_t part = from; part < to; ++part) {
        Backward work(*this, x, hidden, dy, dx,
                      sums[static_cast<size_t>(part)]);
        const int64_t end = blocks * (part + 1) / kParts;
        for (int64_t b = blocks * part / kParts; b < end; ++b) {
          work.run(b * kRows, std::min(kRows, rows - b * kRows));
        }
      }
    });
    return added_up(sums, x.options());
  }

 private:
  int64_t columns() const { return layers_.front().out_columns; }

  // a_n of some rows, and silu of the last of them.
  void forward_rows(const Tensor& x, const Tensor& hidden, int64_t first,
                    int64_t count, Real* active) const {
    const int64_t width = columns();
    const auto& begin = layers_.front();
    Real* a = hidden.data_ptr<Real>() + first * width;
    begin.forward(count, x.data_ptr<Real>() + first * begin.in, begin.in,
                  begin.bias.data(), 0, a);
    for (size_t n = 1; n + 1 < layers_.size(); ++n) {
      Real* next = a + hidden.stride(0);
      const Real* bias = layers_[n].bias.data();
      for (int64_t r = 0; r < count; ++r) {
        for (int64_t c = 0; c < width; ++c) {
          const Real here = a[r * width + c];
          next[r * width + c] = here + bias[c];
          active[r * width + c] = Silu<Real>(here).value;
        }
      }
      layers_[n].forward(count, active, width, next, width, next);
      a = next;
    }
    for (int64_t n = 0; n < count * width; ++n) {
      active[n] = Silu<Real>(a[n]).value;
    }
  }

  // The way back of some rows at a time.
  class Backward {
   public:
    Backward(const MaskedNet& net, const Tensor& x, const Tensor& hidden,
             const Tensor& dy, const Tensor& dx,
             std::vector<LayerSums<Real>>& sums)
        : net_(net), x_(x), hidden_(hidden), dy_(dy), dx_(dx), sums_(sums) {
      const auto wide = static_cast<size_t>(kRows * net.columns());
      for (auto* one : {&active_, &slope_, &da_, &ds_}) one->resize(wide);
      const auto& begin = net.layers_.front();
      inputs_.resize(static_cast<size_t>(kRows * begin.in_columns));
      dinputs_.resize(inputs_.size());
    }

    void run(int64_t first, int64_t count) {
      const int64_t width = net_.columns();
      const auto& layers = net_.layers_;
      const auto& last = layers.back();
      const Real* dy = dy_.data_ptr<Real>() + first * last.out;
      activate(std::ssize(layers) - 2, first, count);
      sums_.back().add(last, count, dy, last.out, active_.data());
      last.backward(count, dy, last.out, ds_.data());
      for (int64_t n = 0; n < count * width; ++n) {
        da_[static_cast<size_t>(n)] =
            ds_[static_cast<size_t>(n)] * slope_[static_cast<size_t>(n)];
      }
      for (int64_t l = std::ssize(layers) - 2; l > 0; --l) {
        const auto& layer = layers[static_cast<size_t>(l)];
        activate(l - 1, first, count);
        sums_[static_cast<size_t>(l)].add(layer, count, da_.data(), width,
                                          active_.data());
        layer.backward(count, da_.data(), width, ds_.data());
        for (int64_t n = 0; n < count * width; ++n) {
          da_[static_cast<size_t>(n)] +=
              ds_[static_cast<size_t>(n)] * slope_[static_cast<size_t>(n)];
        }
      }
      enter(first, count);
    }

   private:
    void activate(int64_t layer, int64_t first, int64_t count) {
      const int64_t width = net_.columns();
      const Real* a =
          hidden_.data_ptr<Real>() + layer * hidden_.stride(0) + first * width;
      Real *value = active_.data(), *slope = slope_.data();
      for (int64_t n = 0; n < count * width; ++n) {
        const Silu<Real> one(a[n]);
        value[n] = one.value;
        slope[n] = one.slope;
      }
    }
    // The first layer, whose values are x.
    void enter(int64_t first, int64_t count) {
      const auto& begin = net_.layers_.front();
      const Real* x = x_.data_ptr<Real>() + first * begin.in;
      for (int64_t r = 0; r < count; ++r) {
        std::copy_n(x + r * begin.in, begin.in,
                    inputs_.data() + r * begin.in_columns);
      }
      sums_.front().add(begin, count, da_.data(), net_.columns(),
                        inputs_.data());
      if (!dx_.defined()) return;
      begin.backward(count, da_.data(), net_.columns(), dinputs_.data());
      for (int64_t r = 0; r < count; ++r) {
        std::copy_n(dinputs_.data() + r * begin.in_columns, begin.in,
                    dx_.data_ptr<Real>() + (first + r) * begin.in);
      }
    }

    const MaskedNet& net_;
    const Tensor &x_, &hidden_, &dy_, &dx_;
    std::vector<LayerSums<Real>>& sums_;
    std::vector<Real> active_, slope_, da_, ds_, inputs_, dinputs_;
  };

  // In the order of the parts, masked and without what fills up rows.
  Tensors added_up(const std::vector<std::vector<LayerSums<Real>>>& sums,
                   const torch::TensorOptions& options) const {
    Tensors all;
    for (size_t n = 0; n < layers_.size(); ++n) {
      const auto& layer = layers_[n];
      const Tensor weight = torch::zeros({layer.out, layer.in}, options);
      const Tensor bias = torch::zeros({layer.out}, options);
      Real *w = weight.data_ptr<Real>(), *c = bias.data_ptr<Real>();
      const Real* mask = layer.mask.template data_ptr<Real>();
      for (const auto& part : sums) {
        const Real* more = part[n].weight.data();
        for (int64_t o = 0; o < layer.out; ++o) {
          for (int64_t i = 0; i < layer.in; ++i) {
            w[o * layer.in + i] += more[o * layer.in_columns + i];
          }
          c[o] += part[n].bias[static_cast<size_t>(o)];
        }
      }
      for (int64_t k = 0; k < layer.out * layer.in; ++k) w[k] *= mask[k];
      all.push_back(weight);
      all.push_back(bias);
    }
    return all;
  }

  std::vector<MaskedWeights<Real>> layers_;
};

// dx, and of each layer the gradients of weight and bias, none of the mask.
Tensors in_order(const Tensor& dx, const Tensors& sums) {
  Tensors all{dx};
  for (size_t n = 0; n < sums.size(); n += 2) {
    all.insert(all.end(), {sums[n], sums[n + 1], Tensor()});
  }
  return all;
}

Tensors inputs_of(const Tensor& x, const Tensors& layers) {
  Tensors inputs{x};
  inputs.insert(inputs.end(), layers.begin(), layers.end());
  return inputs;
}

template <class Real>
Tensor fused(const Tensor& input, const Tensors& layers) {
  const auto x = input.detach().contiguous();
  MaskedNet<Real> net(layers);
  const auto hidden = net.hidden_for(x);
  const auto y = net.forward(x, hidden);
  const auto inputs = inputs_of(input, layers);
  if (!torch::autograd::compute_requires_grad(inputs)) return y;
  auto backward = [net = std::move(net), x, hidden](const Tensors& gradients,
                                                    const ListFunction& node) {
    const auto dx = node.wants(0) ? torch::empty_like(x) : Tensor();
    return in_order(dx, net.backward(x, hidden, gradients[0].contiguous(), dx));
  };
  ListFunction::record({y}, inputs, std::move(backward));
  return y;
}

Tensor fused_on_cuda(const Tensor& input, const Tensors& layers) {
  const auto x = input.detach().contiguous();
  Tensors plain;
  for (const auto& one : layers) plain.push_back(one.detach().contiguous());
  const auto inputs = inputs_of(input, layers);
  const bool keeps = torch::autograd::compute_requires_grad(inputs);
  const auto forward = masked_mlp_cuda(x, plain, keeps);
  if (!keeps) return forward.y;
  const auto backward = [x, plain, saved = forward.saved](
                            const Tensors& gradients,
                            const ListFunction& node) -> Tensors {
    return masked_mlp_backward_cuda(x, plain, saved, gradients[0].contiguous(),
                                    node.wants(0));
  };
  ListFunction::record({forward.y}, inputs, backward);
  return forward.y;
}

}  // namespace

bool has_masked_mlp(const Tensor& x, const Tensors& layers) {
  const auto type = x.scalar_type();
  const bool on_cuda = x.is_cuda() && type == torch::kFloat32 &&
                       masked_mlp_cuda_has(count_of(layers));
  const bool on_cpu =
      x.is_cpu() && (type == torch::kFloat32 || type == torch::kFloat64);
  if ((!on_cuda && !on_cpu) || x.numel() == 0) return false;
  return std::ranges::all_of(layers, [&](const Tensor& one) {
    return one.scalar_type() == type && one.size(0) <= kWidest &&
           one.size(-1) <= kWidest;
  });
}

Tensor masked_mlp_reference(const Tensor& x, const Tensors& layers) {
  const auto apply = [&](int64_t n, const Tensor& from) {
    return torch::linear(from, weight_of(layers, n) * mask_of(layers, n),
                         bias_of(layers, n));
  };
  auto a = apply(0, x);
  for (int64_t n = 1; n + 1 < count_of(layers); ++n) {
    a = a + apply(n, torch::silu(a));
  }
  return apply(count_of(layers) - 1, torch::silu(a));
}

Tensor masked_mlp(const Tensor& x, const Tensors& layers) {
  if (!has_masked_mlp(x, layers)) return masked_mlp_reference(x, layers);
  if (x.is_cuda()) return fused_on_cuda(x, layers);
  return x.scalar_type() == torch::kFloat32 ? fused<float>(x, layers)
                                            : fused<double>(x, layers);
}

}  // namespace propagator::kernels
