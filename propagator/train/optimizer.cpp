#include "propagator/train/optimizer.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "propagator/core/error.h"
#include "propagator/train/muon.h"

namespace propagator::train {

const char* full_name(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kLbfgs:
      return "L-BFGS";
    case OptimizerKind::kBroyden:
      return "Broyden's method";
    case OptimizerKind::kLevenbergMarquardt:
      return "Levenberg-Marquardt";
    default:
      return "";
  }
}

void OptimizerOptions::describe(config::Schema& s) {
  s.field("kind", kind,
          {.help = "how gradients become updates of the weights"});
  s.field("beta1", beta1,
          {.help = "share of Adam's mean gradient that a step keeps",
           .min = 0,
           .max = 0.999999});
  s.field("beta2", beta2,
          {.help = "share of Adam's mean squared gradient that a step keeps",
           .min = 0,
           .max = 0.999999});
  s.field("eps", eps,
          {.help = "number added to the root mean square that Adam divides by",
           .min = 0});
  s.field(
      "weight_decay", weight_decay,
      {.help = "decoupled weight decay of adamw and lamb", .min = 0, .max = 1});
  s.field("bias_correction", bias_correction,
          {.help = "correct Adam's moments for their start at zero"});
  s.field("momentum", momentum,
          {.help = "share of Muon's mean gradient that a step keeps",
           .min = 0,
           .max = 0.999999,
           .later = true});
  s.field("adam_steps", adam_steps,
          {.help = "Adam steps before L-BFGS, Broyden's method or "
                   "Levenberg-Marquardt",
           .min = 0,
           .formerly = "optimizer.handover"});
}

void OptimizerOptions::validate() const {
  const bool decays =
      kind == OptimizerKind::kAdamW || kind == OptimizerKind::kLamb;
  if (!decays && weight_decay != 0) {
    throw ConfigError(
        "optimizer.weight_decay",
        fmt::format("{} has no weight decay", config::name_of(kind)),
        "set optimizer.kind=adamw");
  }
}

Optimizer::Optimizer(const OptimizerOptions& options,
                     FlatParameters& parameters)
    : options_(options),
      parameters_(parameters),
      m_(torch::zeros_like(parameters.values())),
      v_(torch::zeros_like(
          parameters.values().narrow(0, 0, parameters.matrices_begin()))),
      now_{.beta1 = options.beta1,
           .beta2 = options.beta2,
           .eps = options.eps,
           .weight_decay = options.weight_decay},
      varying_(torch::zeros(
          {3}, parameters.values().options().dtype(torch::kFloat64))) {}

void Optimizer::begin_step(double lr) {
  ++steps_;
  const auto correction = [&](double beta) {
    return options_.bias_correction
               ? 1 - std::pow(beta, static_cast<double>(steps_))
               : 1.0;
  };
  now_.lr = lr;
  now_.correction1 = correction(options_.beta1);
  now_.correction2 = correction(options_.beta2);
  varying_.copy_(torch::tensor({now_.lr, now_.correction1, now_.correction2},
                               torch::kFloat64));
}

torch::Tensor Optimizer::apply(const kernels::GradientScale& scale) {
  const torch::NoGradGuard no_grad;
  auto& w = parameters_.values();
  const auto& grad = parameters_.gradients();
  const bool is_adam = options_.kind != OptimizerKind::kLamb &&
                       options_.kind != OptimizerKind::kMuon;
  if (is_adam && !varying_.is_cpu()) {
    return kernels::adam_on_device(w, grad, m_, v_, now_, varying_, scale);
  }
  const auto scaled = kernels::scale_gradient(grad, scale);
  if (options_.kind == OptimizerKind::kLamb) {
    lamb(scaled.factor);
  } else if (options_.kind == OptimizerKind::kMuon) {
    muon(scaled.factor);
  } else {
    now_.grad_scale = scaled.factor.item<double>();
    kernels::adam(w, grad, m_, v_, now_);
  }
  return scaled.norm;
}

void Optimizer::lamb(const torch::Tensor& grad_scale) {
  auto& w = parameters_.values();
  const auto varying = varying_.to(w.dtype());
  const auto lr = varying[0], correction1 = varying[1],
             correction2 = varying[2];
  const auto g = parameters_.gradients() * grad_scale.to(w.dtype());
  m_.mul_(options_.beta1).add_(g, 1 - options_.beta1);
  v_.mul_(options_.beta2).addcmul_(g, g, 1 - options_.beta2);
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

void Optimizer::muon(const torch::Tensor& grad_scale) {
  auto& w = parameters_.values();
  const auto g = parameters_.gradients() * grad_scale.to(w.dtype());
  const int64_t others = parameters_.matrices_begin();
  const auto of_others = [&](const torch::Tensor& all) {
    return all.narrow(0, 0, others);
  };
  if (others > 0) {
    kernels::adam_on_device(of_others(w), of_others(g), of_others(m_), v_, now_,
                            varying_, {});
  }
  const auto lr = varying_[0].to(w.dtype());
  for (const auto& stack : parameters_.stacks()) {
    muon_step(matrices_of(w, stack), matrices_of(g, stack),
              matrices_of(m_, stack), lr, options_.momentum);
  }
}

FlatParameters::Order Optimizer::order_for(OptimizerKind kind) {
  using enum FlatParameters::Order;
  return kind == OptimizerKind::kMuon ? kMatricesLast : kAsNamed;
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
