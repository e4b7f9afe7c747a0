#include "propagator/autodiff/point_gradients.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include "propagator/core/error.h"

namespace propagator::autodiff {
namespace {

using torch::Tensor;

thread_local PointGradients* living = nullptr;

// Where a parameter begins in a flat buffer.
int64_t place_in(const Tensor& flat, const Tensor& parameter) {
  const auto bytes = static_cast<const char*>(parameter.data_ptr()) -
                     static_cast<const char*>(flat.data_ptr());
  const int64_t place = bytes / static_cast<int64_t>(flat.element_size());
  if (parameter.scalar_type() != flat.scalar_type() ||
      !parameter.is_contiguous() || place < 0 ||
      place + parameter.numel() > flat.numel()) {
    throw UsageError(
        "[point_gradients] expected parameters in one flat buffer, got one "
        "elsewhere");
  }
  return place;
}

// Rows (M; …, D) as (M, k, N, D).
Tensor in_blocks(const Tensor& rows, int64_t points) {
  const int64_t all = rows[0].numel() / rows.size(-1);
  if (all % points != 0) {
    throw UsageError(fmt::format(
        "[point_gradients] expected a multiple of {} points, got {}", points,
        all));
  }
  return rows.reshape({rows.size(0), all / points, points, rows.size(-1)});
}

}  // namespace

PointGradients::PointGradients() : before_(living) { living = this; }
PointGradients::~PointGradients() { living = before_; }

void PointGradients::forget() {
  layers_.clear();
  networks_.clear();
  shared_.clear();
}

void PointGradients::note_layer(Layer layer) {
  if (living == nullptr || !layer.out.requires_grad()) return;
  layer.in = layer.in.detach();
  living->layers_.push_back(std::move(layer));
}

void PointGradients::note_network(Network network) {
  if (living == nullptr || !network.out.requires_grad()) return;
  living->networks_.push_back(std::move(network));
}

Tensor PointGradients::at_each_point(const Tensor& numbers,
                                     const std::vector<Tensor>& parameters,
                                     torch::IntArrayRef shape) {
  if (living == nullptr || !numbers.requires_grad()) return numbers;
  auto sizes = shape.vec();
  sizes.push_back(numbers.size(0));
  const auto copies = numbers.expand(sizes).clone();
  living->shared_.push_back({numbers, copies, parameters});
  return copies;
}

void PointGradients::add_shared(const Shared& shared, const Tensor& gradients,
                                int64_t points, const Tensor& flat,
                                Tensor into) {
  const auto by_numbers =
      gradients.reshape({-1, points, gradients.size(-1)}).sum(0);  // (N, K)
  std::vector<Tensor> parameters;
  for (const auto& one : shared.parameters) {
    if (one.requires_grad()) parameters.push_back(one);
  }
  for (int64_t k = 0; k < by_numbers.size(1); ++k) {
    const auto slopes = torch::autograd::grad(
        {shared.numbers[k]}, parameters, {}, /*retain_graph=*/true,
        /*create_graph=*/false, /*allow_unused=*/true);
    for (size_t p = 0; p < parameters.size(); ++p) {
      if (!slopes[p].defined()) continue;
      into.narrow(0, place_in(flat, parameters[p]), parameters[p].numel())
          .add_(torch::outer(slopes[p].flatten(), by_numbers.select(1, k)));
    }
  }
}

void PointGradients::add(const Tensor& residuals, double factor,
                         const Tensor& flat, Tensor into) const {
  std::vector<Tensor> outputs;
  for (const auto& one : layers_) outputs.push_back(one.out);
  for (const auto& one : networks_) outputs.push_back(one.out);
  for (const auto& one : shared_) outputs.push_back(one.copies);
  const auto gradients = torch::autograd::grad(
      {residuals.sum()}, outputs, {}, /*retain_graph=*/true,
      /*create_graph=*/false, /*allow_unused=*/true);
  const int64_t points = residuals.numel();
  for (size_t n = 0; n < shared_.size(); ++n) {
    const auto& here = gradients[layers_.size() + networks_.size() + n];
    if (!here.defined()) continue;
    add_shared(shared_[n], here * factor, points, flat, into);
  }
  const torch::NoGradGuard no_grad;
  auto gradient = gradients.begin();
  for (const auto& [in, out, weight, bias, scale] : layers_) {
    if (!gradient->defined()) {
      ++gradient;
      continue;
    }
    const auto d = in_blocks(*gradient++ * (factor * scale), points);
    const auto x = in_blocks(in, points);
    into.narrow(0, place_in(flat, weight), weight.numel())
        .add_(torch::einsum("mkno,mkni->oin", {d, x}).reshape({-1, points}));
    into.narrow(0, place_in(flat, bias), bias.numel()).add_(d[0].sum(0).t());
  }
  for (const auto& [in, out, net] : networks_) {
    const auto here = *gradient++;
    if (!here.defined()) continue;
    const auto d = in_blocks(here * factor, points), x = in_blocks(in, points);
    std::vector<int64_t> weight_at, bias_at;
    for (size_t l = 0; l < net.weights.size(); ++l) {
      weight_at.push_back(place_in(flat, net.weights[l]));
      bias_at.push_back(place_in(flat, net.biases[l]));
    }
    for (int64_t block = 0; block < d.size(1); ++block) {
      kernels::add_jet_mlp_point_gradients(x.select(1, block), net,
                                           d.select(1, block), weight_at,
                                           bias_at, into);
    }
  }
}

}  // namespace propagator::autodiff
