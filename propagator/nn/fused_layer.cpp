#include "propagator/nn/fused_layer.h"

#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "propagator/core/torch_compat.h"
#include "propagator/kernels/beside.h"
#include "propagator/kernels/column_sums.h"
#include "propagator/kernels/encoder/causal_attention.h"
#include "propagator/kernels/encoder/layer_norm.h"
#include "propagator/kernels/encoder/prefix_softmax.h"
#include "propagator/kernels/product.h"
#include "propagator/nn/folding.h"

namespace propagator::nn {
namespace {

using kernels::Beside;
using kernels::LayerNormed;
using kernels::product;
using torch::Tensor;
using Tensors = torch::autograd::variable_list;

struct Shape {
  int64_t batch, tokens, width, heads, prefix;
  bool sees_itself;

  int64_t depth() const { return width / heads; }
  int64_t keys() const { return prefix * heads; }  // folded, of a case
  double scale() const { return 1 / std::sqrt(static_cast<double>(depth())); }

  // (N, …) as (B, T, …)
  Tensor by_case(const Tensor& x) const {
    return x.view({batch, tokens, x.size(1)});
  }
  // (rows, C), of any row stride, as (H, rows, D)
  Tensor by_head(const Tensor& x) const {
    return x.view({x.size(0), heads, depth()}).transpose(0, 1);
  }
  // Folded keys or values (B, P·H, C) as (H, B·P, C)
  Tensor folded_by_head(const Tensor& x) const {
    return x.view({batch * prefix, heads, width}).transpose(0, 1);
  }
};

// gradient of W += dyᵀ x, unless W is frozen
void add_weight_gradient(const Tensor& gradient, const Tensor& dy,
                         const Tensor& x) {
  if (gradient.defined()) product(gradient, dy.t(), x, {.add = gradient});
}

// gradient of b += Σ_n dy[n, :], unless b is frozen
void add_bias_gradient(const Tensor& gradient, const Tensor& dy) {
  if (gradient.defined()) kernels::add_column_sums(gradient, dy);
}

// --- Attention to the visible tokens alone, folded (folding.h) ---------------

struct Folded {
  Tensor seen;          // (B·P, C), the normed visible tokens
  Tensor kv;            // (B·P, 2 C), their keys and values
  Tensor keys, values;  // (B, P·H, C)
};

Folded fold(const Tensor& y, const LayerWeights& w, const Shape& s) {
  const int64_t c = s.width, rows = s.batch * s.prefix;
  const auto weights = folding_weights(w.qkv, w.output, s.heads);
  Folded f;
  f.seen = s.by_case(y).narrow(1, 0, s.prefix).reshape({rows, c});
  f.kv = torch::empty({rows, 2 * c}, y.options());
  product(f.kv, f.seen, weights.kv.t());
  f.keys = torch::empty({s.batch, s.keys(), c}, y.options());
  f.values = torch::empty_like(f.keys);
  product(s.folded_by_head(f.keys), s.by_head(f.kv.narrow(1, 0, c)),
          weights.query, {.scale = s.scale()});
  product(s.folded_by_head(f.values), s.by_head(f.kv.narrow(1, c, c)),
          weights.output);
  return f;
}

// From the gradients of folded keys and values: those of the weights, and what
// comes to the visible tokens (B·P, C).
Tensor fold_backward(const Folded& f, const Tensor& dkeys,
                     const Tensor& dvalues, const LayerWeights& w,
                     const Shape& s, Beside& beside) {
  const int64_t c = s.width;
  const auto weights = folding_weights(w.qkv, w.output, s.heads);
  const auto gradients =
      folding_weights(gradient_of(w.qkv), gradient_of(w.output), s.heads);
  const auto k = s.by_head(f.kv.narrow(1, 0, c));
  const auto v = s.by_head(f.kv.narrow(1, c, c));
  const auto dk = s.folded_by_head(dkeys), dv = s.folded_by_head(dvalues);
  auto dkv = torch::empty_like(f.kv);
  product(s.by_head(dkv.narrow(1, 0, c)), dk, weights.query.transpose(1, 2),
          {.scale = s.scale()});
  product(s.by_head(dkv.narrow(1, c, c)), dv, weights.output.transpose(1, 2));
  beside.keep({dkv});
  beside.run([&] {
    if (gradients.query.defined()) {
      product(gradients.query, k.transpose(1, 2), dk,
              {.scale = s.scale(), .add = gradients.query});
    }
    if (gradients.output.defined()) {
      const auto to = gradients.output.transpose(1, 2);
      product(to, dv.transpose(1, 2), v, {.add = to});
    }
    add_weight_gradient(gradients.kv, dkv, f.seen);
  });
  auto dseen = torch::empty_like(f.seen);
  product(dseen, dkv, weights.kv);
  return dseen;
}

struct BlockAttention {
  Folded folded;
  Tensor weights;  // (N, P·H)

  // x + attention(y)
  static std::pair<Tensor, BlockAttention> forward(const Tensor& x,
                                                   const Tensor& y,
                                                   const LayerWeights& w,
                                                   const Shape& s) {
    BlockAttention a{fold(y, w, s),
                     torch::empty({y.size(0), s.keys()}, y.options())};
    product(s.by_case(a.weights), s.by_case(y), a.folded.keys.transpose(1, 2));
    kernels::prefix_softmax(a.weights, s.heads);
    auto out = torch::empty_like(x);
    product(s.by_case(out), s.by_case(a.weights), a.folded.values,
            {.add = s.by_case(x)});
    return {out, a};
  }

  // dy, from the gradient of the result.
  Tensor backward(const Tensor& grad, const Tensor& y, const LayerWeights& w,
                  const Shape& s, Beside& beside) const {
    auto dvalues = torch::empty_like(folded.values);
    beside.run([&] {
      product(dvalues, s.by_case(weights).transpose(1, 2), s.by_case(grad));
    });
    auto dscores = torch::empty_like(weights);
    product(s.by_case(dscores), s.by_case(grad), folded.values.transpose(1, 2));
    kernels::prefix_softmax_backward(dscores, weights, s.heads);
    auto dy = torch::empty_like(y);
    beside.run(
        [&] { product(s.by_case(dy), s.by_case(dscores), folded.keys); });
    auto dkeys = torch::empty_like(folded.keys);
    product(dkeys, s.by_case(dscores).transpose(1, 2), s.by_case(y));
    beside.join();
    beside.keep({dkeys, dvalues});
    const auto dseen = fold_backward(folded, dkeys, dvalues, w, s, beside);
    s.by_case(dy)
        .narrow(1, 0, s.prefix)
        .add_(dseen.view({s.batch, s.prefix, s.width}));
    return dy;
  }

  Tensors saved() const {
    return {folded.seen, folded.kv, folded.keys, folded.values, weights};
  }
  static BlockAttention from(const Tensor* t) {
    return {{t[0], t[1], t[2], t[3]}, t[4]};
  }
};

// --- Causal attention -------------------------------------------------------

struct CausalAttention {
  Tensor qkv;  // (N, 3 C)
  kernels::PackedAttention mixed;

  static std::pair<Tensor, CausalAttention> forward(const Tensor& x,
                                                    const Tensor& y,
                                                    const LayerWeights& w,
                                                    const Shape& s) {
    CausalAttention a;
    a.qkv = torch::empty({y.size(0), 3 * s.width}, y.options());
    product(a.qkv, y, w.qkv.t());
    a.mixed = kernels::packed_causal_attention(s.by_case(a.qkv), s.heads,
                                               s.prefix, s.sees_itself);
    auto out = torch::empty_like(x);
    product(out, a.mixed.out.view(x.sizes()), w.output.t(), {.add = x});
    return {out, a};
  }

  Tensor backward(const Tensor& grad, const Tensor& y, const LayerWeights& w,
                  const Shape& s, Beside& beside) const {
    beside.run([&] {
      add_weight_gradient(gradient_of(w.output), grad,
                          mixed.out.view(grad.sizes()));
    });
    auto dmixed = torch::empty_like(grad);
    product(dmixed, grad, w.output);
    const auto dqkv = kernels::packed_causal_attention_backward(
                          s.by_case(dmixed), s.by_case(qkv), mixed, s.heads,
                          s.prefix, s.sees_itself)
                          .view(qkv.sizes());
    beside.run([&] { add_weight_gradient(gradient_of(w.qkv), dqkv, y); });
    beside.keep({dqkv});
    auto dy = torch::empty_like(y);
    product(dy, dqkv, w.qkv);
    return dy;
  }

  Tensors saved() const { return {qkv, mixed.out, mixed.log_sum}; }
  static CausalAttention from(const Tensor* t) { return {t[0], {t[1], t[2]}}; }
};

// --- The layer --------------------------------------------------------------

Tensors list_of(const LayerWeights& w) {
  return {w.norm1,      w.norm1_bias, w.qkv,     w.output, w.norm2,
          w.norm2_bias, w.up,         w.up_bias, w.down,   w.down_bias};
}

template <class Attention>
struct FusedLayer : torch::autograd::Function<FusedLayer<Attention>> {
  static Tensor forward(torch::autograd::AutogradContext* context, Tensor in,
                        Tensor norm1, Tensor norm1_bias, Tensor qkv,
                        Tensor output, Tensor norm2, Tensor norm2_bias,
                        Tensor up, Tensor up_bias, Tensor down,
                        Tensor down_bias, int64_t heads, int64_t prefix,
                        bool sees_itself, double eps) {
    const LayerWeights w{norm1,      norm1_bias, qkv,     output, norm2,
                         norm2_bias, up,         up_bias, down,   down_bias};
    const Shape s{in.size(0), in.size(1), in.size(2),
                  heads,      prefix,     sees_itself};
    const auto x = in.contiguous().view({-1, s.width});
    const auto n1 = kernels::layer_norm(x, w.norm1, w.norm1_bias, eps);
    const auto [x2, attention] = Attention::forward(x, n1.y, w, s);
    const auto n2 = kernels::layer_norm(x2, w.norm2, w.norm2_bias, eps);
    auto hidden = torch::empty({x.size(0), w.up.size(0)}, x.options());
    product(hidden, n2.y, w.up.t(), {.bias = w.up_bias, .relu = true});
    auto out = torch::empty_like(x);
    product(out, hidden, w.down.t(), {.add = x2, .bias = w.down_bias});

    Tensors saved = list_of(w);
    for (const auto& part : {Tensors{x, n1.y, n1.mean, n1.rstd, x2, n2.y,
                                     n2.mean, n2.rstd, hidden},
                             attention.saved()}) {
      saved.insert(saved.end(), part.begin(), part.end());
    }
    context->save_for_backward(saved);
    context->saved_data["shape"] = std::vector<int64_t>{
        s.batch, s.tokens, s.width, heads, prefix, sees_itself};
    return out.view(in.sizes());
  }

  static Tensors backward(torch::autograd::AutogradContext* context,
                          Tensors upstream) {
    const auto t = context->get_saved_variables();
    const LayerWeights w{t[0], t[1], t[2], t[3], t[4],
                         t[5], t[6], t[7], t[8], t[9]};
    const auto &x = t[10], &x2 = t[14], &hidden = t[18];
    const LayerNormed n1{t[11], t[12], t[13]}, n2{t[15], t[16], t[17]};
    const auto attention = Attention::from(&t[19]);
    const auto n = context->saved_data["shape"].toIntVector();
    const Shape s{n[0], n[1], n[2], n[3], n[4], n[5] != 0};

    Beside beside(x.device());
    const auto grad = upstream[0].contiguous().view({-1, s.width});
    beside.run([&] {
      add_weight_gradient(gradient_of(w.down), grad, hidden);
      add_bias_gradient(gradient_of(w.down_bias), grad);
    });
    auto dhidden = torch::empty_like(hidden);
    product(dhidden, grad, w.down);
    kernels::relu_backward(dhidden, hidden, gradient_of(w.up_bias), beside);
    beside.run([&] { add_weight_gradient(gradient_of(w.up), dhidden, n2.y); });
    auto dy2 = torch::empty_like(x2);
    product(dy2, dhidden, w.up);
    const auto dx2 = kernels::layer_norm_backward(
        dy2, x2, n2, w.norm2, grad, gradient_of(w.norm2),
        gradient_of(w.norm2_bias), beside);
    const auto dy = attention.backward(dx2, n1.y, w, s, beside);
    const auto dx = kernels::layer_norm_backward(
        dy, x, n1, w.norm1, dx2, gradient_of(w.norm1),
        gradient_of(w.norm1_bias), beside);
    beside.join();
    Tensors gradients(15);
    gradients[0] = dx.view({s.batch, s.tokens, s.width});
    return gradients;
  }
};

struct FusedNorm : torch::autograd::Function<FusedNorm> {
  static Tensor forward(torch::autograd::AutogradContext* context, Tensor in,
                        Tensor weight, Tensor bias, double eps) {
    const auto x = in.contiguous().view({-1, in.size(-1)});
    const auto n = kernels::layer_norm(x, weight, bias, eps);
    context->save_for_backward({x, n.mean, n.rstd, weight, bias});
    return n.y.view(in.sizes());
  }

  static Tensors backward(torch::autograd::AutogradContext* context,
                          Tensors upstream) {
    const auto t = context->get_saved_variables();
    const auto& x = t[0];
    const auto dy = upstream[0].contiguous();
    Beside beside(x.device());
    const auto dx = kernels::layer_norm_backward(
        dy.view(x.sizes()), x, {{}, t[1], t[2]}, t[3], {}, gradient_of(t[3]),
        gradient_of(t[4]), beside);
    beside.join();
    return {dx.view(dy.sizes()), Tensor(), Tensor(), Tensor()};
  }
};

struct FusedLinear : torch::autograd::Function<FusedLinear> {
  static Tensor forward(torch::autograd::AutogradContext* context, Tensor in,
                        Tensor weight, Tensor bias) {
    const auto x = in.contiguous().view({-1, in.size(-1)});
    auto out = torch::empty({x.size(0), weight.size(0)}, x.options());
    product(out, x, weight.t(), {.bias = bias});
    context->save_for_backward({x, weight, bias});
    auto shape = in.sizes().vec();
    shape.back() = weight.size(0);
    return out.view(shape);
  }

  static Tensors backward(torch::autograd::AutogradContext* context,
                          Tensors upstream) {
    const auto t = context->get_saved_variables();
    const auto &x = t[0], &weight = t[1];
    const auto dy = upstream[0].contiguous().view({x.size(0), weight.size(0)});
    Beside beside(x.device());
    beside.run([&] {
      add_weight_gradient(gradient_of(weight), dy, x);
      add_bias_gradient(gradient_of(t[2]), dy);
    });
    Tensor dx;
    if (context->needs_input_grad(0)) {
      auto shape = upstream[0].sizes().vec();
      shape.back() = weight.size(1);
      dx = torch::empty(shape, x.options());
      product(dx.view(x.sizes()), dy, weight);
    }
    beside.join();
    return {dx, Tensor(), Tensor()};
  }
};

}  // namespace

Tensor gradient_of(const Tensor& parameter) {
  if (!parameter.requires_grad()) return {};
  auto& gradient = parameter.mutable_grad();
  if (!gradient.defined()) gradient = torch::zeros_like(parameter);
  return gradient;
}

Tensor fused_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  double eps) {
  return FusedNorm::apply(x, weight, bias, eps);
}

Tensor fused_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return FusedLinear::apply(x, weight, bias);
}

bool fusing_pays(const Tensor& x) {
  return x.is_cuda() && !autocast_enabled(x.device());
}

Tensor fused_layer(const Tensor& x, const LayerWeights& w, int64_t heads,
                   const AttentionBias& bias, double eps) {
  const auto apply = [&](auto layer) {
    return decltype(layer)::apply(x, w.norm1, w.norm1_bias, w.qkv, w.output,
                                  w.norm2, w.norm2_bias, w.up, w.up_bias,
                                  w.down, w.down_bias, heads, bias.prefix,
                                  bias.sees_itself, eps);
  };
  return bias.keys == AttentionBias::Keys::kCausal
             ? apply(FusedLayer<CausalAttention>())
             : apply(FusedLayer<BlockAttention>());
}

}  // namespace propagator::nn
