#include "propagator/bench/kernel_bench.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "propagator/bench/heat_products.h"
#include "propagator/core/device_graph.h"
#include "propagator/kernels/adam.h"
#include "propagator/kernels/column_sums.h"
#include "propagator/kernels/cuda.h"
#include "propagator/kernels/encoder/cached_attention.h"
#include "propagator/kernels/encoder/causal_attention.h"
#include "propagator/kernels/encoder/few_rows_linear.h"
#include "propagator/kernels/encoder/layer_norm.h"
#include "propagator/kernels/encoder/prefix_softmax.h"
#include "propagator/kernels/plate_loss.h"
#include "propagator/kernels/product.h"
#include "propagator/nn/init.h"

namespace propagator::bench {
namespace {

using torch::Tensor;

constexpr int64_t kCallsOfAGraph = 20;
constexpr double kEps = 1e-5;  // of the layer norms

// The sizes, and tensors of them.
struct Setting {
  HeatSizes sizes;
  int64_t cases, parameters;
  Runtime runtime;

  int64_t tokens() const { return sizes.batch * sizes.frames; }
  bool on_cuda() const { return runtime.device.is_cuda(); }

  Tensor random(at::IntArrayRef shape) const {
    return torch::randn(shape, runtime.options());
  }
  Tensor zeros(at::IntArrayRef shape) const {
    return torch::zeros(shape, runtime.options());
  }
};

// One operator in both forms, on buffers that are there already.
struct Operator {
  bool has_kernel;
  std::function<void()> ours, reference;
  double bytes, operations;
};

// Each tensor is named once for each time it is read or written.
double bytes_of(const std::vector<Tensor>& tensors) {
  double sum = 0;
  for (const auto& tensor : tensors) {
    if (tensor.defined()) {
      sum += number(tensor.numel()) * number(tensor.element_size());
    }
  }
  return sum;
}

double numbers(const Tensor& x) { return number(x.numel()); }

// --- Norms, softmax, ReLU and sums ------------------------------------------

Operator layer_norm(const Setting& s) {
  const int64_t c = s.sizes.width;
  const auto x = s.random({s.tokens(), c});
  const auto weight = s.random({c}), bias = s.random({c});
  const auto out = kernels::layer_norm(x, weight, bias, kEps);
  return {s.on_cuda(), [=] { kernels::layer_norm(x, weight, bias, kEps); },
          [=] { torch::native_layer_norm(x, {c}, weight, bias, kEps); },
          bytes_of({x, weight, bias, out.y, out.mean, out.rstd}),
          8 * numbers(x)};
}

Operator layer_norm_backward(const Setting& s) {
  const int64_t c = s.sizes.width;
  const auto x = s.random({s.tokens(), c}), dy = s.random({s.tokens(), c});
  const auto residual = s.random({s.tokens(), c});
  const auto weight = s.random({c}), bias = s.random({c});
  const auto dweight = s.zeros({c}), dbias = s.zeros({c});
  const auto ours = kernels::layer_norm(x, weight, bias, kEps);
  const auto plain = torch::native_layer_norm(x, {c}, weight, bias, kEps);
  const auto mean = std::get<1>(plain), rstd = std::get<2>(plain);
  return {s.on_cuda(),
          [=] {
            kernels::Beside beside(dy.device());
            kernels::layer_norm_backward(dy, x, ours, weight, residual, dweight,
                                         dbias, beside);
          },
          [=] {
            const auto [dx, dw, db] = torch::native_layer_norm_backward(
                dy, x, {c}, mean, rstd, weight, bias, {true, true, true});
            dx.add_(residual);
            dweight.add_(dw);
            dbias.add_(db);
          },
          bytes_of({dy, x, ours.mean, ours.rstd, weight, residual, dweight,
                    dweight, dbias, dbias, /*dx*/ x}),
          14 * numbers(x)};
}

// Forward and backward.
Operator prefix_softmax(const Setting& s) {
  const int64_t heads = s.sizes.heads;
  const auto scores = s.random({s.tokens(), s.sizes.visible * heads});
  const auto dw = s.random(scores.sizes());
  const auto by_key = [heads](const Tensor& x) {
    return x.view({x.size(0), -1, heads});
  };
  return {s.on_cuda(),
          [=] {
            kernels::prefix_softmax(scores, heads);
            kernels::prefix_softmax_backward(dw, scores, heads);
          },
          [=] {
            const auto w = torch::softmax(by_key(scores), 1), g = by_key(dw);
            (g - (g * w).sum(1, /*keepdim=*/true)).mul_(w);
          },
          bytes_of({scores, scores, dw, scores, dw}), 9 * numbers(scores)};
}

Operator relu_backward(const Setting& s) {
  const auto y = s.random({s.tokens(), s.sizes.feed_forward}).relu_();
  const auto dy = s.random(y.sizes());
  const auto dbias = s.zeros({y.size(1)});
  return {s.on_cuda(),
          [=] {
            kernels::Beside beside(dy.device());
            kernels::relu_backward(dy, y, dbias, beside);
          },
          [=] {
            dy.mul_(y > 0);
            dbias.add_(dy.sum(0));
          },
          bytes_of({dy, y, dbias, dy, dbias}), 2 * numbers(y)};
}

Operator column_sums(const Setting& s) {
  const auto a = s.random({s.tokens(), s.sizes.width});
  const auto out = s.zeros({a.size(1)});
  return {s.on_cuda(), [=] { kernels::add_column_sums(out, a); },
          [=] { out.add_(a.sum(0)); }, bytes_of({a, out, out}), numbers(a)};
}

// --- Attention --------------------------------------------------------------
// Operations are those of the products of queries with the keys they see.

// qkv (B, T, 3 C) → queries, keys or values (B, H, T, D)
Tensor part_of(const Tensor& qkv, int64_t n, int64_t heads) {
  return qkv.view({qkv.size(0), qkv.size(1), 3, heads, -1})
      .select(2, n)
      .transpose(1, 2);
}

// (B, T, C) → (B, H, T, D), and back
Tensor by_head(const Tensor& x, int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, -1}).transpose(1, 2);
}
Tensor pack(const Tensor& x) { return x.transpose(1, 2).flatten(2); }
Tensor pack(const Tensor& q, const Tensor& k, const Tensor& v) {
  return torch::cat({pack(q), pack(k), pack(v)}, 2);
}

struct CausalInputs {
  Tensor qkv;      // (B, T, 3 C)
  Tensor q, k, v;  // (B, H, T, D), views of it
  Tensor mask;     // (T, T)
  bool packed;     // there is a kernel that takes qkv
  double pairs;    // of a query and a key that it sees, in all cases

  explicit CausalInputs(const Setting& s)
      : qkv(s.random({s.sizes.batch, s.sizes.frames, 3 * s.sizes.width})),
        q(part_of(qkv, 0, s.sizes.heads)),
        k(part_of(qkv, 1, s.sizes.heads)),
        v(part_of(qkv, 2, s.sizes.heads)),
        mask(kernels::causal_mask(s.sizes.frames, s.sizes.prefix(),
                                  s.sizes.sees_itself(), s.runtime.options())),
        packed(kernels::packed_attention_is_fused(
            qkv.narrow(2, 0, s.sizes.width), s.sizes.heads)),
        pairs(0) {
    for (int64_t i = 0; i < s.sizes.frames; ++i) {
      pairs += number(s.sizes.keys_seen(i + 1));
    }
    pairs *= number(s.sizes.batch * s.sizes.heads);
  }
};

Operator causal_attention(const Setting& s) {
  const CausalInputs in(s);
  const int64_t heads = s.sizes.heads, prefix = s.sizes.prefix();
  const bool sees_itself = s.sizes.sees_itself();
  const auto out =
      kernels::packed_causal_attention(in.qkv, heads, prefix, sees_itself);
  return {in.packed,
          [=] {
            kernels::packed_causal_attention(in.qkv, heads, prefix,
                                             sees_itself);
          },
          [=] { pack(kernels::masked_attention(in.q, in.k, in.v, in.mask)); },
          bytes_of({in.qkv, out.out, out.log_sum}),
          4 * in.pairs * number(in.q.size(3))};
}

// From the weights p (B, H, T, T) of forward.
Tensor plain_attention_backward(const CausalInputs& in, const Tensor& p,
                                const Tensor& grad) {
  const double scale = 1 / std::sqrt(number(in.q.size(3)));
  const auto g = by_head(grad, in.q.size(1));
  const auto dp = torch::matmul(g, in.v.transpose(2, 3));
  const auto ds = p * (dp - (dp * p).sum(-1, /*keepdim=*/true)) * scale;
  return pack(torch::matmul(ds, in.k), torch::matmul(ds.transpose(2, 3), in.q),
              torch::matmul(p.transpose(2, 3), g));
}

Operator causal_attention_backward(const Setting& s) {
  const CausalInputs in(s);
  const int64_t heads = s.sizes.heads, prefix = s.sizes.prefix();
  const bool sees_itself = s.sizes.sees_itself();
  const auto out =
      kernels::packed_causal_attention(in.qkv, heads, prefix, sees_itself);
  const auto grad = s.random(out.out.sizes());
  const auto p =
      torch::softmax(kernels::attention_scores(in.q, in.k, in.mask), -1);
  // Scores are computed again: five products.
  return {in.packed,
          [=] {
            kernels::packed_causal_attention_backward(grad, in.qkv, out, heads,
                                                      prefix, sees_itself);
          },
          [=] { plain_attention_backward(in, p, grad); },
          bytes_of({grad, in.qkv, out.out, out.log_sum, /*dqkv*/ in.qkv}),
          10 * in.pairs * number(in.q.size(3))};
}

Operator cached_attention(const Setting& s) {
  const auto& n = s.sizes;
  const int64_t depth = n.width / n.heads, length = n.frames;
  const auto q = s.random({s.cases, n.heads, 1, depth});
  const auto k = s.random({s.cases, n.heads, length, depth});
  const auto v = s.random(k.sizes());
  const bool on_gpu = q.is_cuda() && q.scalar_type() == torch::kFloat32 &&
                      kernels::cached_attention_cuda_has_depth(depth);
  return {q.is_cpu() || on_gpu,
          [=] { kernels::cached_attention(q, k, v, length); },
          [=] { kernels::cached_attention_reference(q, k, v, length); },
          bytes_of({q, k, v, /*out*/ q}), 4 * numbers(k)};
}

// --- Loss and optimiser -----------------------------------------------------

Operator plate_loss(const Setting& s) {
  const auto& n = s.sizes;
  const auto truth = s.random({n.batch, n.frames, n.rows, n.cols});
  const auto factor = s.zeros({n.batch}).fill_(0.1);
  const kernels::PlateLossInputs in{
      s.random(truth.sizes()), truth, factor, factor, factor, n.visible};
  auto differentiable = in;
  differentiable.prediction = in.prediction.detach().requires_grad_();
  const kernels::PlateLossWeights weights;
  return {truth.is_cpu() ||
              (truth.is_cuda() && kernels::plate_loss_cuda_fits(truth)),
          // It makes the gradient whether or not autograd asks for it.
          [=] { kernels::plate_loss(in, weights); },
          [=] {
            const torch::AutoGradMode with_gradients(true);
            const auto loss =
                kernels::plate_loss_reference(differentiable, weights);
            torch::autograd::grad({loss.total}, {differentiable.prediction});
          },
          bytes_of({in.prediction, truth, /*gradient*/ truth}),
          29 * numbers(truth)};
}

Operator adam(const Setting& s) {
  const auto w = s.random({s.parameters}), grad = s.random({s.parameters});
  const auto m = s.zeros({s.parameters}), v = s.zeros({s.parameters});
  const kernels::AdamStep step;
  std::function<void()> ours = [=] { kernels::adam(w, grad, m, v, step); };
  if (s.on_cuda()) {
    const auto varying =
        torch::tensor({step.lr, step.correction1, step.correction2},
                      torch::kFloat64)
            .to(s.runtime.device);
    ours = [=] { kernels::adam_on_device(w, grad, m, v, step, varying, {}); };
  }
  return {w.is_cpu() || w.is_cuda(), ours,
          [=] { kernels::adam_reference(w, grad, m, v, step); },
          bytes_of({w, grad, m, v, w, m, v}), 15 * numbers(w)};
}

// --- Products ---------------------------------------------------------------

Operator few_rows_linear(const Setting& s) {
  const int64_t c = s.sizes.width;
  const auto x = s.random({std::min(s.cases, kernels::kFewRows), c});
  const auto w = s.random({3 * c, c});
  const auto out = torch::linear(x, w);
  return {x.is_cpu(), [=] { kernels::few_rows_linear(x, w, {}); },
          [=] { kernels::few_rows_linear_reference(x, w, {}); },
          bytes_of({x, w, out}), 2 * numbers(out) * number(c)};
}

Operator product(const Tensor& out, const Tensor& a, const Tensor& b,
                 const kernels::ProductOptions& options) {
  return {out.is_cuda() && out.scalar_type() == torch::kFloat32,
          [=] { kernels::product(out, a, b, options); },
          [=] { kernels::product_reference(a, b, options); },
          bytes_of({a, b, options.add, options.bias, out}),
          2 * numbers(out) * number(a.size(1))};
}

Tensor factor(const Setting& s, at::IntArrayRef shape) {
  return torch::randn(shape, product_options(s.runtime));
}

Operator product_up(const Setting& s) {
  const int64_t n = s.tokens(), c = s.sizes.width, f = s.sizes.feed_forward;
  return product(factor(s, {n, f}), factor(s, {n, c}), factor(s, {f, c}).t(),
                 {.bias = factor(s, {f}), .relu = true});
}

Operator product_down(const Setting& s) {
  const int64_t n = s.tokens(), c = s.sizes.width, f = s.sizes.feed_forward;
  return product(factor(s, {n, c}), factor(s, {n, f}), factor(s, {c, f}).t(),
                 {.add = factor(s, {n, c}), .bias = factor(s, {c})});
}

Operator product_weight_gradient(const Setting& s) {
  const int64_t n = s.tokens(), c = s.sizes.width, f = s.sizes.feed_forward;
  const auto gradient = factor(s, {f, c});
  return product(gradient, factor(s, {n, f}).t(), factor(s, {n, c}),
                 {.add = gradient});
}

struct Kind {
  const char* name;
  Operator (*make)(const Setting&);  // when its turn comes, to save memory
};
constexpr Kind kKinds[] = {
    {"layer_norm", layer_norm},
    {"layer_norm_backward", layer_norm_backward},
    {"prefix_softmax", prefix_softmax},
    {"relu_backward", relu_backward},
    {"column_sums", column_sums},
    {"causal_attention", causal_attention},
    {"causal_attention_backward", causal_attention_backward},
    {"cached_attention", cached_attention},
    {"plate_loss", plate_loss},
    {"adam", adam},
    {"few_rows_linear", few_rows_linear},
    {"product_up", product_up},
    {"product_down", product_down},
    {"product_weight_gradient", product_weight_gradient}};

// Of one call, in microseconds.
double median_of(const std::string& title, const Runtime& runtime,
                 const TimingPlan& plan, const std::function<void()>& call) {
  if (!DeviceGraph::possible(runtime)) {
    return 1e3 * measure(title, runtime, plan, call).median;
  }
  DeviceGraph graph([&] {
    for (int64_t n = 0; n < kCallsOfAGraph; ++n) call();
  });
  const auto times = measure(title, runtime, plan, [&] { graph.run(); });
  return 1e3 * times.median / number(kCallsOfAGraph);
}

}  // namespace

nlohmann::json KernelResult::to_json() const {
  return {{"name", name},
          {"has_kernel", has_kernel},
          {"ours_us", ours_us},
          {"reference_us", reference_us},
          {"bytes", bytes},
          {"operations", operations},
          {"share_of_limit", shares.of_nearer()},
          {"bound_by", shares.bound_by()}};
}

std::vector<KernelResult> bench_kernels(const run::Experiment& experiment,
                                        const Runtime& runtime,
                                        const Limits& limits,
                                        const BenchOptions& options) {
  const torch::NoGradGuard no_grad;
  const Setting setting{
      HeatSizes(experiment), cases_of(experiment, runtime, options),
      nn::parameter_count(*experiment.make_model(runtime)), runtime};
  // A graph is captured in the fourth run.
  const auto plan = plan_of(runtime, options, {1, 5}, {5, 51});
  std::vector<KernelResult> results;
  for (const auto& [name, make] : kKinds) {
    const auto work = make(setting);
    const double ours = median_of(name, runtime, plan, work.ours);
    const double plain = work.has_kernel
                             ? median_of(fmt::format("{}, reference", name),
                                         runtime, plan, work.reference)
                             : ours;
    KernelResult result{name,  work.has_kernel, ours,
                        plain, work.bytes,      work.operations};
    result.shares = shares_of(limits, ours * 1e-6, work.operations, work.bytes);
    results.push_back(result);
  }
  return results;
}

}  // namespace propagator::bench
