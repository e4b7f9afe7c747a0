#include "propagator/kernels/set/sensor_tokens.h"

#include <ATen/Dispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

namespace propagator::kernels {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class SensorTokens : public torch::autograd::Function<SensorTokens> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& times,
                        const Tensor& table, const Tensor& weight,
                        const Tensor& offset) {
    const int64_t events = times.size(0), tokens = table.size(0),
                  width = table.size(1);
    // A row for each token, without its time.
    auto base = table.clone();
    base.narrow(0, 1, tokens - 1).add_(offset);
    const auto given = times.contiguous(), slope = weight.contiguous();
    auto out = torch::empty({events, tokens, width}, table.options());
    AT_DISPATCH_FLOATING_TYPES(table.scalar_type(), "sensor_tokens", [&] {
      const auto* t = given.data_ptr<scalar_t>();
      const auto* w = slope.data_ptr<scalar_t>();
      auto* to = out.data_ptr<scalar_t>();
      for (int64_t b = 0; b < events; ++b) {
        const auto* from = base.data_ptr<scalar_t>();
        to = std::copy_n(from, width, to);
        for (int64_t s = 1; s < tokens; ++s, ++t) {
          from += width;
          for (int64_t c = 0; c < width; ++c) *to++ = from[c] + *t * w[c];
        }
      }
    });
    context->save_for_backward({given});
    context->saved_data["shared"] = offset.dim() == 1;
    return out;
  }

  static variable_list backward(AutogradContext* context,
                                variable_list upstream) {
    const auto times = context->get_saved_variables()[0];
    const auto grad = upstream[0].contiguous();
    const int64_t events = grad.size(0), tokens = grad.size(1),
                  width = grad.size(2);
    const bool of_table = context->needs_input_grad({{1, 2}, {3, 4}}),
               of_weight = context->needs_input_grad(2);
    auto d_table = torch::zeros({tokens, width}, grad.options());
    auto d_weight = torch::zeros({width}, grad.options());
    AT_DISPATCH_FLOATING_TYPES(grad.scalar_type(), "sensor_tokens", [&] {
      const auto* t = times.data_ptr<scalar_t>();
      const auto* from = grad.data_ptr<scalar_t>();
      auto* w = d_weight.data_ptr<scalar_t>();
      for (int64_t b = 0; b < events; ++b) {
        auto* to = d_table.data_ptr<scalar_t>();
        for (int64_t s = 0; s < tokens; ++s, from += width, to += width) {
          if (of_table) {
            for (int64_t c = 0; c < width; ++c) to[c] += from[c];
          }
          if (s == 0) continue;
          if (of_weight) {
            for (int64_t c = 0; c < width; ++c) w[c] += *t * from[c];
          }
          ++t;
        }
      }
    });
    const auto d_offset = d_table.narrow(0, 1, tokens - 1);
    const bool shared = context->saved_data["shared"].toBool();
    return {Tensor(), d_table, d_weight,
            shared ? d_offset.sum(0) : d_offset.clone()};
  }
};

}  // namespace

Tensor sensor_tokens_reference(const Tensor& times, const Tensor& table,
                               const Tensor& weight, const Tensor& offset) {
  const auto summary =
      table.narrow(0, 0, 1).expand({times.size(0), 1, table.size(1)});
  const auto of_sensor = table.narrow(0, 1, times.size(1)) + offset;
  // t wᵀ as a product of (B, S, 1) and (C).
  return torch::cat(
      {summary, torch::addcmul(of_sensor, times.unsqueeze(2), weight)}, 1);
}

Tensor sensor_tokens(const Tensor& times, const Tensor& table,
                     const Tensor& weight, const Tensor& offset) {
  const auto type = table.scalar_type();
  const bool known = type == torch::kFloat32 || type == torch::kFloat64;
  if (!known || !table.is_cpu() || times.requires_grad()) {
    return sensor_tokens_reference(times, table, weight, offset);
  }
  return SensorTokens::apply(times, table, weight, offset);
}

}  // namespace propagator::kernels
