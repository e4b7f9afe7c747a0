#include "propagator/kernels/encoder/causal_stack.h"

#include <ATen/Parallel.h>
#include <torch/utils.h>

#include <bit>

#include "propagator/core/torch_compat.h"
#include "propagator/kernels/encoder/stack_tile.h"
#include "propagator/kernels/list_function.h"

namespace propagator::kernels {
namespace {

using torch::Tensor;
using Tensors = torch::autograd::variable_list;

constexpr int64_t kRows = 64;        // that go through the layers together
constexpr int64_t kMostTokens = 32;  // of a sequence
constexpr int64_t kWidest = 1024;    // layer
constexpr int64_t kMostParts = 16;   // that sum gradients by themselves
constexpr int64_t kRowsOfPart = 64;  // at least
constexpr int64_t kOfLayer = 10;     // tensors

stack::Sizes sizes_of(const StackWeights& w) {
  return {w.layers[0].size(0), w.heads, w.layers[6].size(0),
          std::ssize(w.layers) / kOfLayer, w.eps};
}

// Where the numbers of a layer begin: the tensors one after the other.
template <class Real>
stack::LayerNumbers<Real> numbers_at(Real* at, const stack::Sizes& s) {
  const auto take = [&](int64_t count) {
    Real* here = at;
    at += count;
    return here;
  };
  stack::LayerNumbers<Real> n;
  const int64_t c = s.width, f = s.hidden;
  n.norm1 = take(c);
  n.norm1_bias = take(c);
  n.qkv = take(3 * c * c);
  n.output = take(c * c);
  n.norm2 = take(c);
  n.norm2_bias = take(c);
  n.up = take(f * c);
  n.up_bias = take(f);
  n.down = take(c * f);
  n.down_bias = take(c);
  return n;
}
int64_t numbers_of_layer(const stack::Sizes& s) {
  return 4 * s.width * s.width + 5 * s.width + s.hidden * (2 * s.width + 1);
}

template <class Real>
stack::LayerNumbers<const Real> weights_of(const StackWeights& w, int64_t n) {
  const auto at = [&](int64_t k) -> const Real* {
    return w.layers[static_cast<size_t>(kOfLayer * n + k)]
        .template data_ptr<Real>();
  };
  return {at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7), at(8), at(9)};
}

// Sequences that go through the layers together.
struct Tile {
  int64_t rows, tokens, keys;

  // What the layers keep of it, and behind that what the last norm keeps.
  int64_t of_layer(const stack::Sizes& s) const {
    return rows * stack::Kept<float>::of_row(s, keys);
  }
  int64_t kept(const stack::Sizes& s) const {
    return s.layers * of_layer(s) + rows * (s.width + 1);
  }
};

// All tensors contiguous and without a graph.
template <class Real>
class Stack {
 public:
  Stack(const StackTokens& tokens, const StackWeights& weights)
      : s_(sizes_of(weights)),
        weights_(weights),
        tokens_(tokens.rest.size(1)),
        sequences_(tokens.rest.size(0)),
        shared_(tokens.first.size(0)) {
    for (int64_t n = 0; n < s_.layers; ++n) {
      layers_.emplace_back(weights_of<Real>(weights_, n), s_);
    }
  }

  // Numbers that are kept of all tiles, and of the first token.
  Tensor room_for_all(const torch::TensorOptions& options) const {
    return torch::empty({tiles(), whole_tile().kept(s_)}, options);
  }
  Tensor room_for_first(const torch::TensorOptions& options) const {
    return torch::empty({first_tile().kept(s_)}, options);
  }

  // Without room for all tiles each uses its own again.
  StackTokens forward(const StackTokens& in, const Tensor& first_kept,
                      const Tensor& kept) const {
    const StackTokens out{torch::empty_like(in.first),
                          torch::empty_like(in.rest)};
    Real* first = first_kept.data_ptr<Real>();
    if (shared_ > 0) {
      stack::Room<Real> room(1, s_, 1);
      forward_tile(first_tile(), in.first.data_ptr<Real>(),
                   out.first.data_ptr<Real>(), first, nullptr, room);
    }
    const auto* x = in.rest.data_ptr<Real>();
    auto* y = out.rest.data_ptr<Real>();
    at::parallel_for(0, tiles(), 1, [&](int64_t from, int64_t to) {
      stack::Room<Real> room(whole_tile().rows, s_, whole_tile().keys);
      std::vector<Real> own(
          static_cast<size_t>(kept.defined() ? 0 : whole_tile().kept(s_)));
      for (int64_t t = from; t < to; ++t) {
        const int64_t at = t * whole_tile().rows * s_.width;
        forward_tile(tile(t), x + at, y + at,
                     kept.defined() ? kept_of(kept, t) : own.data(),
                     shared_ > 0 ? first : nullptr, room);
      }
    });
    return out;
  }

  // The gradients of all weights, one after the other; those of the tokens go
  // to `dx`.
  Tensor backward(const StackTokens& dy, const Tensor& first_kept,
                  const Tensor& kept, const StackTokens& dx) const {
    // A power of two, so that threads have equally many.
    const int64_t parts = std::min<int64_t>(
        kMostParts, std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(
                        1, sequences_ * tokens_ / kRowsOfPart))));
    const auto options = dy.rest.options();
    // With room for the gradients of the first token's keys and values.
    const auto sums = torch::zeros({parts, numbers() + pairs()}, options);
    const auto* d = dy.rest.data_ptr<Real>();
    auto* to_x = dx.rest.data_ptr<Real>();
    Real* first = first_kept.data_ptr<Real>();
    at::parallel_for(0, parts, 1, [&](int64_t from, int64_t to) {
      stack::Room<Real> room(whole_tile().rows, s_, whole_tile().keys);
      for (int64_t part = from; part < to; ++part) {
        const int64_t end = tiles() * (part + 1) / parts;
        for (int64_t t = tiles() * part / parts; t < end; ++t) {
          const int64_t at = t * whole_tile().rows * s_.width;
          backward_tile(tile(t), d + at, to_x + at, kept_of(kept, t),
                        shared_ > 0 ? first : nullptr, nullptr,
                        sums[part].template data_ptr<Real>(), room);
        }
      }
    });
    const auto total = sums.sum(0);
    if (shared_ > 0) {
      stack::Room<Real> room(1, s_, 1);
      auto* all = total.template data_ptr<Real>();
      backward_tile(first_tile(), dy.first.data_ptr<Real>(),
                    dx.first.data_ptr<Real>(), first, nullptr, all + numbers(),
                    all, room);
    }
    return total;
  }

 private:
  int64_t keys() const { return tokens_ + shared_; }
  Tile whole_tile() const {
    const int64_t rows = std::max<int64_t>(1, kRows / tokens_) * tokens_;
    return {rows, tokens_, keys()};
  }
  int64_t tiles() const {
    const int64_t rows = whole_tile().rows;
    return (sequences_ * tokens_ + rows - 1) / rows;
  }
  Tile tile(int64_t n) const {
    auto one = whole_tile();
    one.rows = std::min(one.rows, sequences_ * tokens_ - n * one.rows);
    return one;
  }
  static Tile first_tile() { return {1, 1, 1}; }
  Real* kept_of(const Tensor& kept, int64_t n) const {
    return kept.data_ptr<Real>() + n * kept.size(1);
  }
  int64_t numbers() const {
    return s_.layers * numbers_of_layer(s_) + 2 * s_.width;
  }
  int64_t pairs() const { return 2 * s_.layers * s_.width; }

  stack::Kept<Real> layer_kept(const Tile& tile, Real* kept, int64_t n) const {
    return {kept + n * tile.of_layer(s_), tile.rows, s_, tile.keys};
  }
  // Key and value of the first token in layer n, with room for their gradients.
  stack::FirstToken<Real> first_token(Real* first_kept, int64_t n,
                                      Real* gradients) const {
    if (first_kept == nullptr) return {};
    const Real* qkv = layer_kept(first_tile(), first_kept, n).qkv;
    Real* at = gradients == nullptr ? nullptr : gradients + 2 * n * s_.width;
    return {qkv + s_.width, qkv + 2 * s_.width, at,
            at == nullptr ? nullptr : at + s_.width};
  }

  void forward_tile(const Tile& tile, const Real* from, Real* to, Real* kept,
                    Real* first_kept, stack::Room<Real>& room) const {
    const int64_t c = s_.width;
    std::vector<Real> x(from, from + tile.rows * c);
    for (int64_t n = 0; n < s_.layers; ++n) {
      const stack::Attention<Real> attention(
          s_, tile.tokens, first_token(first_kept, n, nullptr));
      stack::forward_layer(layers_[static_cast<size_t>(n)], s_, tile.rows,
                           attention, layer_kept(tile, kept, n), room,
                           x.data());
    }
    Real* unit = kept + s_.layers * tile.of_layer(s_);
    stack::normalise<Real>(
        x.data(), tile.rows, c, s_.eps, weights_.norm.data_ptr<Real>(),
        weights_.norm_bias.data_ptr<Real>(), unit, unit + tile.rows * c, to);
  }

  // `dfirst`: what all sequences say of the first token's keys and values, if
  // this is the tile of that token.
  void backward_tile(const Tile& tile, const Real* dy, Real* dx, Real* kept,
                     Real* first_kept, const Real* dfirst, Real* sums,
                     stack::Room<Real>& room) const {
    const int64_t c = s_.width, of_layer = numbers_of_layer(s_);
    Real* unit = kept + s_.layers * tile.of_layer(s_);
    Real* dnorm = sums + s_.layers * of_layer;
    std::fill_n(dx, tile.rows * c, Real(0));
    stack::normalise_backward<Real>(dy, tile.rows, c,
                                    weights_.norm.data_ptr<Real>(), unit,
                                    unit + tile.rows * c, dx, dnorm, dnorm + c);
    for (int64_t n = s_.layers - 1; n >= 0; --n) {
      const stack::Attention<Real> attention(
          s_, tile.tokens, first_token(first_kept, n, sums + numbers()));
      stack::backward_layer(
          layers_[static_cast<size_t>(n)], s_, tile.rows, attention,
          layer_kept(tile, kept, n), numbers_at(sums + n * of_layer, s_),
          dfirst == nullptr ? nullptr : dfirst + 2 * n * c, room, dx);
    }
  }

  stack::Sizes s_;
  StackWeights weights_;
  int64_t tokens_, sequences_, shared_;
  std::vector<stack::Layer<Real>> layers_;
};

Tensors inputs_of(const StackTokens& tokens, const StackWeights& w) {
  Tensors all{tokens.first, tokens.rest};
  all.insert(all.end(), w.layers.begin(), w.layers.end());
  all.insert(all.end(), {w.norm, w.norm_bias});
  return all;
}

template <class Real>
StackTokens fused(const StackTokens& tokens, const StackWeights& weights) {
  const auto plain = [](const Tensor& x) { return x.detach().contiguous(); };
  const auto inputs = inputs_of(tokens, weights);
  auto w = weights;
  for (auto& one : w.layers) one = plain(one);
  w.norm = plain(w.norm);
  w.norm_bias = plain(w.norm_bias);
  const StackTokens in{plain(tokens.first), plain(tokens.rest)};
  const bool keeps = torch::autograd::compute_requires_grad(inputs);
  Stack<Real> net(in, w);
  const auto options = in.rest.options();
  const auto first_kept = net.room_for_first(options);
  const auto kept = keeps ? net.room_for_all(options) : Tensor();
  const auto out = net.forward(in, first_kept, kept);
  if (!keeps) return out;
  auto backward = [net = std::move(net), in, w, first_kept, kept](
                      const Tensors& gradients, const ListFunction&) {
    const auto whole = [](const Tensor& d, const Tensor& like) {
      return d.defined() ? d.contiguous() : torch::zeros_like(like);
    };
    const StackTokens dy{whole(gradients[0], in.first),
                         whole(gradients[1], in.rest)};
    const StackTokens dx{torch::empty_like(in.first),
                         torch::empty_like(in.rest)};
    GradientParts parts(net.backward(dy, first_kept, kept, dx));
    Tensors all{dx.first, dx.rest};
    for (const auto& one : w.layers) all.push_back(parts.like(one));
    all.insert(all.end(), {parts.like(w.norm), parts.like(w.norm_bias)});
    return all;
  };
  ListFunction::record({out.first, out.rest}, inputs, std::move(backward));
  return out;
}

Tensor reference_attention(const Tensor& x, const Tensor& qkv,
                           const Tensor& output, int64_t heads) {
  const int64_t tokens = x.size(1), depth = x.size(2) / heads;
  const auto parts =
      torch::linear(x, qkv).view({x.size(0), tokens, 3, heads, depth});
  const auto part = [&](int64_t n) {
    return parts.select(2, n).transpose(1, 2);
  };
  const auto hidden =
      torch::ones({tokens, tokens}, x.options().dtype(torch::kBool)).triu(1);
  const auto scores = torch::matmul(part(0), part(1).transpose(2, 3)) /
                      std::sqrt(static_cast<double>(depth));
  const auto weights =
      torch::softmax(scores.masked_fill(hidden, -INFINITY), -1);
  return torch::linear(
      torch::matmul(weights, part(2)).transpose(1, 2).reshape(x.sizes()),
      output);
}

}  // namespace

bool has_causal_stack(const StackTokens& tokens, const StackWeights& w) {
  const auto& x = tokens.rest;
  const auto type = x.scalar_type();
  if (!x.is_cpu() || x.numel() == 0 || autocast_enabled(x.device()) ||
      (type != torch::kFloat32 && type != torch::kFloat64)) {
    return false;
  }
  const auto s = sizes_of(w);
  return x.size(1) <= kMostTokens && s.width % 16 == 0 && s.hidden % 16 == 0 &&
         s.depth() % 8 == 0 && s.width <= kWidest && s.hidden <= kWidest &&
         std::ranges::all_of(w.layers, [&](const Tensor& one) {
           return one.scalar_type() == type;
         });
}

StackTokens causal_stack_reference(const StackTokens& tokens,
                                   const StackWeights& w) {
  const int64_t count = tokens.rest.size(0), shared = tokens.first.size(0);
  const int64_t width = tokens.rest.size(2);
  auto x = torch::cat(
      {tokens.first.unsqueeze(0).expand({count, shared, width}), tokens.rest},
      1);
  const auto norm = [&](const Tensor& from, const Tensor& weight,
                        const Tensor& bias) {
    return torch::layer_norm(from, {width}, weight, bias, w.eps);
  };
  for (size_t n = 0; n < w.layers.size(); n += kOfLayer) {
    const auto* at = w.layers.data() + n;
    x = x + reference_attention(norm(x, at[0], at[1]), at[2], at[3], w.heads);
    const auto hidden =
        torch::relu(torch::linear(norm(x, at[4], at[5]), at[6], at[7]));
    x = x + torch::linear(hidden, at[8], at[9]);
  }
  x = norm(x, w.norm, w.norm_bias);
  // The same of every sequence.
  return {shared > 0 ? x.select(1, 0).narrow(0, 0, 1) : tokens.first,
          x.narrow(1, shared, tokens.rest.size(1))};
}

StackTokens causal_stack(const StackTokens& tokens, const StackWeights& w) {
  if (!has_causal_stack(tokens, w)) return causal_stack_reference(tokens, w);
  return tokens.rest.scalar_type() == torch::kFloat32
             ? fused<float>(tokens, w)
             : fused<double>(tokens, w);
}

}  // namespace propagator::kernels
