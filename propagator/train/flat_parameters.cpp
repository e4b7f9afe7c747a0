#include "propagator/train/flat_parameters.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include <algorithm>

namespace propagator::train {
namespace {

// Every parameter begins at a multiple of this many numbers: products read four
// at a time, and one scalar before a matrix would cost it half its speed.
constexpr int64_t kAlignment = 4;

int64_t aligned(int64_t size) {
  return (size + kAlignment - 1) / kAlignment * kAlignment;
}

bool is_matrix(const torch::Tensor& value) {
  return value.dim() == 2 && value.size(0) > 1 && value.size(1) > 1;
}

}  // namespace

FlatParameters::FlatParameters(
    torch::nn::Module& module,
    const std::map<std::string, torch::Tensor>& others, Order order,
    LowRank* low_rank)
    : low_rank_(low_rank) {
  const torch::NoGradGuard no_grad;
  std::vector<std::pair<std::string, torch::Tensor>> parameters(others.begin(),
                                                                others.end());
  for (const auto& item : module.named_parameters()) {
    const bool computed = low_rank != nullptr && low_rank->computes(item.key());
    if (item.value().requires_grad() && !computed) {
      parameters.emplace_back(item.pair());
    }
  }
  if (order == Order::kMatricesLast) {
    std::ranges::stable_sort(parameters, {}, [](const auto& parameter) {
      const auto& value = parameter.second;
      return is_matrix(value) ? value.sizes().vec() : std::vector<int64_t>{};
    });
  }
  int64_t size = 0;
  for (const auto& [name, value] : parameters) {
    const int64_t offset = aligned(size);
    segments_.push_back({name, offset, value.numel()});
    size = offset + value.numel();
    if (order == Order::kAsNamed || !is_matrix(value)) continue;
    if (stacks_.empty() || stacks_.back().rows != value.size(0) ||
        stacks_.back().columns != value.size(1)) {
      stacks_.push_back(
          {offset, aligned(value.numel()), 0, value.size(0), value.size(1)});
    }
    ++stacks_.back().count;
  }
  // A model that is fitted at once has none.
  const auto options = parameters.empty()
                           ? torch::TensorOptions(torch::kFloat32)
                           : parameters.front().second.options();
  values_ = torch::zeros({size}, options).set_requires_grad(false);
  gradients_ = torch::zeros_like(values_);
  for (size_t i = 0; i < segments_.size(); ++i) {
    auto& parameter = parameters[i].second;
    const auto& [name, offset, count] = segments_[i];
    const auto shape = parameter.sizes().vec();
    const auto view = values_.narrow(0, offset, count).view(shape);
    view.copy_(parameter);
    parameter.set_data(view);
    parameter.mutable_grad() = gradients_.narrow(0, offset, count).view(shape);
    // Factors are no leaves of the graph: their gradients come from it.
    if (parameter.requires_grad()) parameters_.push_back(parameter);
  }
  if (low_rank == nullptr) return;
  const auto computed = low_rank->weights();
  parameters_.insert(parameters_.end(), computed.begin(), computed.end());
}

void FlatParameters::add_gradient_of(const torch::Tensor& loss, double share) {
  if (parameters_.empty()) return;
  if (low_rank_ != nullptr) low_rank_->clear_gradients();
  const auto all = torch::autograd::grad({loss}, parameters_,
                                         {torch::full_like(loss, share)},
                                         /*retain_graph=*/false,
                                         /*create_graph=*/false,
                                         /*allow_unused=*/true);
  // One that is not there is zero, or was added where it was made.
  std::vector<torch::Tensor> to, from;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i].defined()) continue;
    to.push_back(parameters_[i].grad());
    from.push_back(all[i]);
  }
  if (!to.empty()) at::_foreach_add_(to, from);
  if (low_rank_ != nullptr) low_rank_->pull_back();
}

}  // namespace propagator::train
