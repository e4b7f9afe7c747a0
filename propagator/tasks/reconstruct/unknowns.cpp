#include <torch/utils.h>

#include <cmath>

#include "propagator/autodiff/parameter_gradients.h"
#include "propagator/tasks/reconstruct/laplace.h"
#include "propagator/tasks/reconstruct/reconstruct.h"

// Parameters of the equations that readings tell.

namespace propagator::tasks {
namespace {

using nlohmann::json;
using torch::Tensor;

constexpr int64_t kMostIterations = 200;

// The trained parameters of a model in one vector, and back.
struct Trained {
  std::vector<Tensor> all;
  int64_t sought = 0;  // where the unknowns begin

  explicit Trained(torch::nn::Module& model) {
    int64_t size = 0;
    for (const auto& item : model.named_parameters()) {
      if (!item.value().requires_grad()) continue;
      if (item.key().ends_with("sought")) sought = size;
      all.push_back(item.value());
      size += item.value().numel();
    }
  }
  Tensor flat() const {
    std::vector<Tensor> parts;
    for (const auto& one : all) parts.push_back(one.detach().flatten());
    return torch::cat(parts);
  }
  void set(const Tensor& values) const {
    const torch::NoGradGuard no_grad;
    int64_t from = 0;
    for (const auto& one : all) {
      one.detach().copy_(values.narrow(0, from, one.numel()).view(one.sizes()));
      from += one.numel();
    }
  }
};

}  // namespace

// With many readings the posterior of weights and unknowns is near a normal
// one, whose covariance is the inverse Hessian of the negative log-likelihood:
// M / (2 σ² λ) times the loss, M readings with weight λ in it and noise σ, as
// the sensors held out show it.
double Reconstruct::deviation_of(models::FieldNet& model, int64_t unknown,
                                 json& said) {
  const torch::AutoGradMode on(true);
  const Trained trained(model);
  const auto at = trained.flat();
  const auto everywhere = torch::arange(size(data::Split::kTrain));
  const auto gradient = [&](const Tensor& values) {
    trained.set(values);
    const auto total = loss(model, data::Split::kTrain, everywhere).total;
    auto parts = autodiff::parameter_gradients(total, trained.all);
    for (auto& part : parts) part = part.flatten();
    return torch::cat(parts);
  };
  const auto entry = inverse_hessian_entry(
      gradient, at, trained.sought + unknown, kMostIterations);
  trained.set(at);
  double noise = 1;  // a likelihood has its own
  if (reading_loss_.kind != ReadingLoss::kHeteroscedastic) {
    const torch::NoGradGuard no_grad;
    const auto misfit = misfit_of(model, held_out_);
    noise =
        ((misfit.error.square().sum() / held_out_.known.sum())).item<double>();
  }
  const double readings = training_.known.sum().item<double>();
  said["iterations"] = entry.iterations;
  said["settled"] = entry.settled;
  return std::sqrt(2 * noise * reading_loss_.weight / readings * entry.value);
}

json Reconstruct::unknowns_of(models::FieldNet& model) {
  json all = json::object();
  const auto values = model.unknowns().detach().to(torch::kFloat64).cpu();
  for (size_t k = 0; k < problem_->unknowns.size(); ++k) {
    const auto& [name, start, truth] = problem_->unknowns[k];
    const double value = values[static_cast<int64_t>(k)].item<double>();
    json one{{"value", value}, {"start", start}};
    const double reach =
        kReach95 * deviation_of(model, static_cast<int64_t>(k), one);
    const double ends[] = {
        start == 0 ? value - reach : value * std::exp(-reach),
        start == 0 ? value + reach : value * std::exp(reach)};
    one["interval_95"] = {std::min(ends[0], ends[1]),
                          std::max(ends[0], ends[1])};
    if (truth) {
      one["truth"] = *truth;
      one["relative_error"] = std::abs(value - *truth) / std::abs(*truth);
    }
    all[name] = std::move(one);
  }
  return all;
}

}  // namespace propagator::tasks
