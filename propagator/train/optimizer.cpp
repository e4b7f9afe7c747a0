#include "propagator/train/optimizer.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "propagator/core/error.h"
#include "propagator/kernels/adam.h"

namespace propagator::train {

void OptimizerOptions::describe(config::Schema& s) {
  s.field("kind", kind, {.help = "how gradients become updates"});
  s.field("beta1", beta1,
          {.help = "memory of the mean gradient", .min = 0, .max = 0.999999});
  s.field("beta2", beta2,
          {.help = "memory of the mean square", .min = 0, .max = 0.999999});
  s.field("eps", eps, {.help = "added to the root mean square", .min = 0});
  s.field("weight_decay", weight_decay,
          {.help = "decoupled, for adamw and lamb", .min = 0, .max = 1});
  s.field("bias_correction", bias_correction,
          {.help = "of the moments' start at zero"});
}

void OptimizerOptions::validate() const {
  if (kind == OptimizerKind::kAdam && weight_decay != 0) {
    throw ConfigError("optimizer.weight_decay", "adam has no weight decay",
                      "set optimizer.kind=adamw");
  }
}

Optimizer::Optimizer(const OptimizerOptions& options,
                     FlatParameters& parameters)
    : options_(options),
      parameters_(parameters),
      m_(torch::zeros_like(parameters.values())),
      v_(torch::zeros_like(parameters.values())) {}

void Optimizer::step(double lr, double grad_scale) {
  const torch::NoGradGuard no_grad;
  ++steps_;
  const auto correction = [&](double beta) {
    return options_.bias_correction
               ? 1 - std::pow(beta, static_cast<double>(steps_))
               : 1.0;
  };
  const double c1 = correction(options_.beta1);
  const double c2 = correction(options_.beta2);
  if (options_.kind == OptimizerKind::kLamb) {
    lamb_step(lr, grad_scale, c1, c2);
    return;
  }
  kernels::adam(parameters_.values(), parameters_.gradients(), m_, v_,
                {.lr = lr,
                 .beta1 = options_.beta1,
                 .beta2 = options_.beta2,
                 .eps = options_.eps,
                 .weight_decay = options_.weight_decay,
                 .correction1 = c1,
                 .correction2 = c2,
                 .grad_scale = grad_scale});
}

void Optimizer::lamb_step(double lr, double grad_scale, double correction1,
                          double correction2) {
  const auto g = parameters_.gradients() * grad_scale;
  m_.mul_(options_.beta1).add_(g, 1 - options_.beta1);
  v_.mul_(options_.beta2).addcmul_(g, g, 1 - options_.beta2);
  auto& w = parameters_.values();
  const auto direction =
      (m_ / correction1) / ((v_ / correction2).sqrt() + options_.eps) +
      options_.weight_decay * w;
  for (const auto& [name, offset, size] : parameters_.segments()) {
    auto part = w.narrow(0, offset, size);
    const auto d = direction.narrow(0, offset, size);
    const auto w_norm = part.norm(), d_norm = d.norm();
    const auto known = torch::logical_and(w_norm > 0, d_norm > 0);
    const auto trust =
        torch::where(known, w_norm / d_norm, torch::ones_like(w_norm));
    part.sub_(d * (lr * trust));
  }
}

std::map<std::string, torch::Tensor> Optimizer::state() const {
  return {{"m", m_}, {"v", v_}};
}

void Optimizer::restore(const std::map<std::string, torch::Tensor>& state,
                        int64_t steps) {
  const torch::NoGradGuard no_grad;
  for (auto [name, moment] : {std::pair{"m", m_}, std::pair{"v", v_}}) {
    const auto found = state.find(name);
    if (found == state.end() || found->second.numel() != moment.numel()) {
      throw DataError(
          fmt::format("[optimizer] expected '{}' with {} numbers, "
                      "got {}",
                      name, moment.numel(),
                      found == state.end() ? 0 : found->second.numel()));
    }
    moment.copy_(found->second);
  }
  steps_ = steps;
}

}  // namespace propagator::train
