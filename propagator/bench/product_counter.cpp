#include "propagator/bench/product_counter.h"

#include <ATen/record_function.h>
#include <torch/types.h>

#include <map>
#include <string>

#include "propagator/bench/timing.h"
#include "propagator/kernels/encoder/causal_head.h"

namespace propagator::bench {
namespace {

using torch::Tensor;

// Which of its inputs an operator multiplies, or how many operations a number
// of its output takes.
enum class Counted {
  kProduct,
  kAddedProduct,
  kAxisProduct,
  kModeProduct,
  kConvolution,
  kAttention,
  kCausalAttention,
  kCausalAttentionBackward
};

const std::map<std::string, Counted>& counted() {
  using enum Counted;
  static const std::map<std::string, Counted> names{
      {"aten::mm", kProduct},
      {"aten::bmm", kProduct},
      {"aten::addmm", kAddedProduct},
      {"aten::addmm_", kAddedProduct},
      {"aten::baddbmm", kAddedProduct},
      {"aten::baddbmm_", kAddedProduct},
      {"aten::convolution", kConvolution},
      {"aten::convolution_overrideable", kConvolution},
      {"propagator::axis_product", kAxisProduct},
      {"propagator::mode_product", kModeProduct},
      {"propagator::set_attention", kAttention},
      {"propagator::causal_attention", kCausalAttention},
      {"propagator::causal_attention_backward", kCausalAttentionBackward}};
  return names;
}

double of_product(const Tensor& left, const Tensor& right) {
  const double real = 2 * number(left.numel()) * number(right.size(-1));
  return left.is_complex() ? 4 * real : real;
}

// The output's size follows from the sizes of input and weight: nothing here is
// padded but by copies.
double of_convolution(const Tensor& input, const Tensor& weight,
                      const std::vector<int64_t>& stride) {
  double places = number(input.size(0));
  for (int64_t d = 2; d < input.dim(); ++d) {
    const auto step =
        stride[stride.size() == 1 ? 0 : static_cast<size_t>(d - 2)];
    places *= number((input.size(d) - weight.size(d)) / step + 1);
  }
  return 2 * places * number(weight.numel());
}

// (B, T, 3 C): scores and what they weigh.
double of_attention(const Tensor& qkv) {
  return 4 * number(qkv.numel()) / 3 * number(qkv.size(1));
}

// Queries (B, H, T, D), the prefix, and whether a query sees itself: scores of
// what is seen, and what they weigh.
double of_causal_attention(const c10::ArrayRef<const c10::IValue>& inputs) {
  const auto q = inputs[0].toTensor();
  const kernels::CausalReach reach{q.size(2), inputs[1].toInt(),
                                   inputs[2].toBool()};
  double pairs = 0;
  for (int64_t i = 0; i < reach.tokens; ++i)
    pairs += number(reach.keys_seen(i));
  return 4 * pairs * number(q.size(0) * q.size(1) * q.size(3));
}

double operations_of_call(const at::RecordFunction& function, Counted kind) {
  const auto inputs = function.inputs();
  const auto tensor = [&](size_t n) { return inputs[n].toTensor(); };
  switch (kind) {
    case Counted::kProduct:
      return of_product(tensor(0), tensor(1));
    case Counted::kAxisProduct:  // (m, n) and (B, n, inner)
      return 2 * number(tensor(0).size(0)) * number(tensor(1).numel());
    case Counted::kModeProduct:  // complex numbers with their parts last
      return 8 * number(tensor(0).numel() / 2) * number(tensor(1).size(-2));
    case Counted::kAddedProduct:
      return of_product(tensor(1), tensor(2));
    case Counted::kConvolution:
      return of_convolution(tensor(0), tensor(1), inputs[3].toIntVector());
    case Counted::kAttention:
      return of_attention(tensor(0));
    case Counted::kCausalAttention:
      return of_causal_attention(inputs);
    case Counted::kCausalAttentionBackward:  // a product's two gradients
      return 2 * of_causal_attention(inputs);
  }
  return 0;
}

struct Counter {
  static inline thread_local double operations = 0;
  static inline thread_local int depth = 0;

  struct Context : at::ObserverContext {
    bool counts = false;
  };
  static std::unique_ptr<at::ObserverContext> begin(
      const at::RecordFunction& function) {
    auto context = std::make_unique<Context>();
    const auto found = counted().find(function.name());
    context->counts = found != counted().end();
    if (context->counts && depth++ == 0) {
      operations += operations_of_call(function, found->second);
    }
    return context;
  }
  static void end(const at::RecordFunction&, at::ObserverContext* context) {
    if (static_cast<Context*>(context)->counts) --depth;
  }
};

}  // namespace

double operations_of(const std::function<void()>& work) {
  Counter::operations = 0;
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(Counter::begin, Counter::end)
          .needsInputs(true));
  try {
    work();
  } catch (...) {
    at::removeCallback(handle);
    throw;
  }
  at::removeCallback(handle);
  return Counter::operations;
}

}  // namespace propagator::bench
