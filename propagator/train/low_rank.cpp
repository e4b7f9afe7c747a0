#include "propagator/train/low_rank.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "propagator/core/error.h"
#include "propagator/core/random.h"

namespace propagator::train {
namespace {

using torch::Tensor;

// The tensor without autograd, as a matrix in the same memory.
Tensor as_matrix(const Tensor& weight) {
  return weight.detach().view({weight.size(0), -1});
}

}  // namespace

Tensor with_low_rank(const Tensor& weight, const Tensor& a, const Tensor& b,
                     double scale) {
  return torch::addmm(weight.reshape({weight.size(0), -1}), b, a, 1, scale)
      .view(weight.sizes());
}

bool LowRank::fits(const Tensor& weight) {
  return weight.dim() >= 2 && weight.is_floating_point() &&
         weight.size(0) > 1 && weight.numel() > weight.size(0);
}

void LowRank::add(const std::string& name, const Tensor& weight,
                  const Options& options) {
  const torch::NoGradGuard no_grad;
  const int64_t rows = weight.size(0), columns = weight.numel() / rows;
  const int64_t rank = std::min({options.rank, rows, columns});
  const double bound = 1 / std::sqrt(static_cast<double>(columns));
  const auto place =
      torch::TensorOptions(weight.scalar_type()).device(weight.device());
  auto a = RandomStream(options.seed, "tune/" + name)
               .uniform({rank, columns}, -bound, bound, weight.scalar_type())
               .to(place);
  auto& change = changes_.emplace_back(
      Change{name, weight, weight.detach().clone(), a,
             torch::zeros({rows, rank}, place),
             options.alpha / static_cast<double>(options.rank)});
  change.weight.mutable_grad() = torch::zeros_like(change.base);
}

bool LowRank::computes(const std::string& name) const {
  return std::ranges::find(changes_, name, &Change::name) != changes_.end();
}

std::vector<Tensor> LowRank::weights() const {
  std::vector<Tensor> all;
  for (const auto& change : changes_) all.push_back(change.weight);
  return all;
}

NamedTensors LowRank::factors() const {
  NamedTensors all;
  for (const auto& change : changes_) {
    all[change.name + kLoraA] = change.a;
    all[change.name + kLoraB] = change.b;
  }
  return all;
}

NamedTensors LowRank::bases() const {
  NamedTensors all;
  for (const auto& change : changes_) all[change.name] = change.base;
  return all;
}

void LowRank::restore(const NamedTensors& factors, const NamedTensors& bases) {
  const torch::NoGradGuard no_grad;
  const auto copy = [](const NamedTensors& from, const std::string& name,
                       Tensor to) {
    const auto found = from.find(name);
    if (found == from.end() || found->second.sizes() != to.sizes()) {
      throw DataError(fmt::format(
          "[tune] the checkpoint has no {} of this fine-tuning", name));
    }
    to.copy_(found->second);
  };
  for (auto& change : changes_) {
    copy(factors, change.name + kLoraA, change.a);
    copy(factors, change.name + kLoraB, change.b);
    copy(bases, change.name, change.base);
  }
}

void LowRank::refresh() {
  const torch::NoGradGuard no_grad;
  for (auto& change : changes_) {
    auto to = as_matrix(change.weight);
    torch::addmm_out(to, as_matrix(change.base), change.b, change.a, 1,
                     change.scale);
  }
}

void LowRank::clear_gradients() {
  for (auto& change : changes_) change.weight.mutable_grad().zero_();
}

void LowRank::pull_back() {
  const torch::NoGradGuard no_grad;
  for (auto& change : changes_) {
    const auto gradient = as_matrix(change.weight.grad());
    change.a.mutable_grad().addmm_(change.b.t(), gradient, 1, change.scale);
    change.b.mutable_grad().addmm_(gradient, change.a.t(), 1, change.scale);
  }
}

}  // namespace propagator::train
