#include "propagator/nn/masked_mlp.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/utils.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "propagator/kernels/masked_mlp.h"

namespace propagator::nn {
namespace {

using torch::Tensor;

using Degrees = std::vector<int64_t>;

// The place of each variable in the order, from 1.
Degrees places(const std::vector<int64_t>& order) {
  Degrees at(order.size());
  for (size_t n = 0; n < order.size(); ++n) {
    at[static_cast<size_t>(order[n])] = static_cast<int64_t>(n) + 1;
  }
  return at;
}

// Hidden units know of every number of variables but all of them in turn; of
// none only if there is something else to know.
Degrees hidden_degrees(const MaskedMlpOptions& o) {
  const int64_t least = o.given > 0 || o.variables == 1 ? 0 : 1;
  Degrees degrees(static_cast<size_t>(o.width));
  for (int64_t n = 0; n < o.width; ++n) {
    degrees[static_cast<size_t>(n)] = least + n % (o.variables - least);
  }
  return degrees;
}

Tensor mask_of(const Degrees& from, const Degrees& to, bool strict) {
  const auto a = torch::tensor(from).unsqueeze(0);
  const auto b = torch::tensor(to).unsqueeze(1);
  return (strict ? b > a : b >= a).to(torch::kFloat32);
}

}  // namespace

MaskedMlpImpl::MaskedMlpImpl(const MaskedMlpOptions& options)
    : options_(options) {
  std::vector<int64_t> natural(static_cast<size_t>(options.variables));
  std::iota(natural.begin(), natural.end(), 0);
  auto& order = options_.order;
  if (order.empty()) order = natural;
  if (!std::ranges::is_permutation(order, natural)) {
    throw std::invalid_argument(
        fmt::format("[masked_mlp] expected an order of {} variables, got [{}]",
                    options.variables, fmt::join(order, ", ")));
  }
  const auto at = places(order);
  auto from = at;
  from.insert(from.end(), static_cast<size_t>(options.given), 0);
  const auto hidden = hidden_degrees(options_);
  for (int64_t n = 0; n < options.layers; ++n) {
    hidden_.push_back(layer(fmt::format("hidden{}", n), n == 0 ? from : hidden,
                            hidden,
                            /*strict=*/false));
  }
  Degrees to;
  for (const int64_t degree : at) {
    to.insert(to.end(), static_cast<size_t>(options.outputs), degree);
  }
  out_ = layer("out", hidden, to, /*strict=*/true);
  reset_outputs();
}

MaskedMlpImpl::Layer MaskedMlpImpl::layer(const std::string& name,
                                          const Degrees& from,
                                          const Degrees& to, bool strict) {
  return {
      register_module(name, torch::nn::Linear(static_cast<int64_t>(from.size()),
                                              static_cast<int64_t>(to.size()))),
      register_buffer(name + "_mask", mask_of(from, to, strict))};
}

void MaskedMlpImpl::reset_outputs() {
  const torch::NoGradGuard no_grad;
  out_.linear->weight.zero_();
  out_.linear->bias.zero_();
}

std::vector<Tensor> MaskedMlpImpl::layers() const {
  std::vector<Tensor> all;
  const auto add = [&](const Layer& layer) {
    all.insert(all.end(),
               {layer.linear->weight, layer.linear->bias, layer.mask});
  };
  for (const auto& layer : hidden_) add(layer);
  add(out_);
  return all;
}

Tensor MaskedMlpImpl::forward(const Tensor& x, const Tensor& given) {
  const auto known = options_.given > 0 ? torch::cat({x, given}, 1) : x;
  return kernels::masked_mlp(known, layers())
      .view({x.size(0), options_.variables, options_.outputs});
}

}  // namespace propagator::nn
