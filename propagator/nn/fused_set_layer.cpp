#include "propagator/nn/fused_set_layer.h"

#include <ATen/Dispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "propagator/core/torch_compat.h"
#include "propagator/kernels/set/set_layer.h"
#include "propagator/nn/fused_layer.h"

namespace propagator::nn {
namespace {

using kernels::Lanes;
using kernels::PackedSets;
using kernels::SetLayer;
using kernels::SetLayerKept;
using kernels::SetLayerNumbers;
using kernels::SetLayerShape;
using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Larger steps keep all threads busy in a product library.
constexpr int64_t kMostNumbers = 1 << 17;

constexpr size_t kWeights = 12;

// What is kept for the backward pass, behind the weights.
struct Saved {
  Tensor attention, hidden, output;  // factors, or of no number
  Tensor begin, place;
  Tensor x, kept;

  void append_to(variable_list& list) const {
    list.insert(list.end(), {attention, hidden, output, begin, place, x, kept});
  }
  static Saved from(const variable_list& list) {
    const auto* t = &list[kWeights];
    return {t[0], t[1], t[2], t[3], t[4], t[5], t[6]};
  }
};

SetLayerShape shape_of(const Saved& saved, int64_t tokens, int64_t hidden,
                       int64_t heads, bool first) {
  return {.sets = saved.begin.size(0) - 1,
          .tokens = tokens,
          .rows = saved.x.size(0),
          .begin = saved.begin.data_ptr<int64_t>(),
          .place = saved.place.data_ptr<int64_t>(),
          .width = saved.x.size(1),
          .hidden = hidden,
          .heads = heads,
          .first = first};
}

// In the order of SetLayerWeights::all(); null for what is undefined.
template <class Real>
SetLayerNumbers<Real> numbers_of(const variable_list& w) {
  const auto at = [&](size_t n) {
    return w[n].defined() ? w[n].data_ptr<Real>() : nullptr;
  };
  return {at(0), at(1), at(2), at(3), at(4),  at(5),
          at(6), at(7), at(8), at(9), at(10), at(11)};
}

template <class Real>
const Real* data_or_null(const Tensor& x) {
  return x.numel() > 0 ? x.data_ptr<Real>() : nullptr;
}

template <class Real>
SetLayer<Real> layer_of(const SetLayerShape& s, const variable_list& weights,
                        const Saved& saved) {
  return {s,
          numbers_of<Real>(weights),
          {data_or_null<Real>(saved.attention),
           data_or_null<Real>(saved.hidden), data_or_null<Real>(saved.output)}};
}

class FusedSetLayer : public torch::autograd::Function<FusedSetLayer> {
 public:
  // The second tensor is a weight that is trained, so that the graph has this
  // node where x needs no gradient.
  static Tensor forward(AutogradContext* context, const Tensor& x,
                        const Tensor&, const PackedSets& sets,
                        const SetLayerWeights& weights,
                        const SetLayerFactors& factors,
                        const SetLayerOptions& options) {
    // Autograd keeps no undefined tensor.
    const auto given = [&](const Tensor& f) {
      return f.defined() ? f : torch::empty({0}, x.options());
    };
    Saved saved{given(factors.attention),
                given(factors.hidden),
                given(factors.output),
                sets.begin,
                sets.place,
                x.contiguous(),
                {}};
    auto list = weights.all();
    const auto s = shape_of(saved, sets.tokens, weights.linear1.size(0),
                            options.heads, options.first);
    const auto out = torch::empty({s.asked(), s.width}, x.options());
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "fused_set_layer", [&] {
      const SetLayerKept<scalar_t> measured(s, nullptr);
      saved.kept = torch::empty({measured.size}, x.options());
      const SetLayerKept<scalar_t> kept(s, saved.kept.data_ptr<scalar_t>());
      layer_of<scalar_t>(s, list, saved)
          .forward(saved.x.data_ptr<scalar_t>(),
                   data_or_null<scalar_t>(given(factors.weights)), kept,
                   options.eps, out.data_ptr<scalar_t>());
    });
    saved.append_to(list);
    context->save_for_backward(list);
    context->saved_data["tokens"] = sets.tokens;
    context->saved_data["heads"] = options.heads;
    context->saved_data["first"] = options.first;
    return out;
  }

  static variable_list backward(AutogradContext* context,
                                variable_list upstream) {
    const auto list = context->get_saved_variables();
    const auto saved = Saved::from(list);
    const auto s = shape_of(saved, context->saved_data["tokens"].toInt(),
                            list[4].size(0),  // linear1
                            context->saved_data["heads"].toInt(),
                            context->saved_data["first"].toBool());
    variable_list gradients;
    for (size_t n = 0; n < kWeights; ++n) {
      gradients.push_back(gradient_of(list[n]));
    }
    const auto grad = upstream[0].contiguous();
    const auto dx = torch::empty_like(saved.x);
    AT_DISPATCH_FLOATING_TYPES(dx.scalar_type(), "fused_set_layer", [&] {
      const SetLayerKept<scalar_t> kept(s, saved.kept.data_ptr<scalar_t>());
      layer_of<scalar_t>(s, list, saved)
          .backward(grad.data_ptr<scalar_t>(), saved.x.data_ptr<scalar_t>(),
                    kept, numbers_of<scalar_t>(gradients),
                    dx.data_ptr<scalar_t>());
    });
    return {dx, Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

std::vector<Tensor> SetLayerWeights::all() const {
  return {qkv,     qkv_bias,     output, output_bias, linear1, linear1_bias,
          linear2, linear2_bias, norm1,  norm1_bias,  norm2,   norm2_bias};
}

Tensor fused_set_layer(const Tensor& x, const PackedSets& sets,
                       const SetLayerWeights& weights,
                       const SetLayerFactors& factors,
                       const SetLayerOptions& options) {
  const auto all = weights.all();
  const auto trained =
      std::find_if(all.begin(), all.end(),
                   [](const Tensor& w) { return w.requires_grad(); });
  return FusedSetLayer::apply(x, trained == all.end() ? x : *trained, sets,
                              weights, factors, options);
}

bool fused_set_layer_pays(const Tensor& tokens, const SetLayerWeights& weights,
                          int64_t heads) {
  const auto type = tokens.scalar_type();
  if (!tokens.is_cpu() || !c10::GradMode::is_enabled() ||
      autocast_enabled(tokens.device()) || tokens.numel() > kMostNumbers ||
      (type != torch::kFloat32 && type != torch::kFloat64)) {
    return false;
  }
  for (const auto& w : weights.all()) {
    if (w.scalar_type() != type) return false;
  }
  const bool is_float = type == torch::kFloat32;
  const int64_t lanes = is_float ? Lanes<float>::kCount : Lanes<double>::kCount;
  const int64_t one = is_float ? Lanes<float>::kWidth : Lanes<double>::kWidth;
  const int64_t width = tokens.size(2);
  return width % lanes == 0 && weights.linear1.size(0) % lanes == 0 &&
         width / heads % one == 0;
}

}  // namespace propagator::nn
