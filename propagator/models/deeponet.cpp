#include "propagator/models/deeponet.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/nn/wavelet_mlp.h"

namespace propagator::models {
namespace {

using autodiff::Jet;
using torch::Tensor;

constexpr const char* kBranchInputs = "branch_inputs";

// (M, F) readings → (I): those of every field that was ever read, then the
// flags of the same.
Tensor branch_inputs_of(const Tensor& readings) {
  const auto known = torch::isfinite(readings);
  const auto columns = known.any(0).nonzero().flatten();
  return torch::cat(
      {readings.nan_to_num(0).index_select(1, columns).flatten(),
       known.index_select(1, columns).flatten().to(readings.scalar_type())});
}

}  // namespace

void DeepOnetOptions::describe(config::Schema& s) {
  s.field("width", width,
          {.help = "width of the trunk's hidden layers, which see the point",
           .min = 1,
           .max = 65536});
  s.field("layers", layers,
          {.help = "hidden layers of the trunk", .min = 1, .max = 100});
  s.field("branch_width", branch_width,
          {.help = "width of the branch's hidden layers, which see the "
                   "readings",
           .min = 1,
           .max = 65536});
  s.field("branch_layers", branch_layers,
          {.help = "hidden layers of the branch", .min = 1, .max = 100});
  s.field("basis", basis,
          {.help = "functions of the point whose weighted sum is a field",
           .min = 1,
           .max = 65536});
  s.field("activation", activation, {.help = "between the layers of both"});
}

std::shared_ptr<FieldNet> DeepOnetOptions::make(
    const FieldDomain& domain) const {
  return std::make_shared<DeepOnet>(*this, domain);
}

DeepOnet::DeepOnet(const DeepOnetOptions& o, const FieldDomain& domain)
    : options_(o), fields_(domain.fields), axes_(*this, domain) {
  const auto chain = [this](const char* name, int64_t in, int64_t width,
                            int64_t layers, int64_t out) {
    std::vector<torch::nn::Linear> all;
    for (int64_t n = 0; n <= layers; ++n) {
      all.push_back(register_module(
          fmt::format("{}{}", name, n),
          torch::nn::Linear(n == 0 ? in : width, n < layers ? width : out)));
    }
    return all;
  };
  // One input until there are readings, whose number decides.
  branch_ = chain("branch", 1, o.branch_width, o.branch_layers,
                  o.basis * domain.fields);
  trunk_ = chain("trunk", domain.variables(), o.width, o.layers, o.basis);
  bias_ = register_parameter("bias", torch::zeros({domain.fields}));
  inputs_ = register_parameter(kBranchInputs, torch::zeros({0}), false);
}

void DeepOnet::initialise(int64_t seed) {
  seed_ = seed;
  FieldNet::initialise(seed);
  const torch::NoGradGuard no_grad;
  bias_.zero_();
}

bool DeepOnet::resize(int64_t inputs) {
  auto& weight = branch_.front()->weight;
  const bool fits = inputs_.size(0) == inputs && weight.size(1) == inputs;
  if (fits) return false;
  inputs_.set_data(torch::zeros({inputs}, inputs_.options()));
  weight.set_data(torch::zeros({weight.size(0), inputs}, weight.options()));
  return true;
}

void DeepOnet::observe(const autodiff::Observations& read) {
  const torch::NoGradGuard no_grad;
  const auto inputs = branch_inputs_of(read.readings);
  if (resize(inputs.size(0))) initialise(seed_);
  inputs_.copy_(inputs);
}

void DeepOnet::take_shapes(const std::map<std::string, Tensor>& tensors,
                           const std::string& prefix) {
  const torch::NoGradGuard no_grad;
  const auto found = tensors.find(prefix + kBranchInputs);
  if (found == tensors.end() || found->second.dim() != 1) return;
  if (found->second.size(0) > 0) resize(found->second.size(0));
}

std::vector<std::string> DeepOnet::last_layer() const {
  return {fmt::format("branch{}", options_.branch_layers), "bias"};
}

Jet DeepOnet::activated(const Jet& x) const {
  return options_.activation == DeepOnetActivation::kTanh ? autodiff::tanh(x)
                                                          : autodiff::gelu(x);
}

Tensor DeepOnet::coefficients() {
  if (inputs_.size(0) == 0) {
    throw UsageError(
        "[deeponet] this network answers from readings, and has none",
        "it is a model of the task reconstruct");
  }
  const bool is_tanh = options_.activation == DeepOnetActivation::kTanh;
  auto x = inputs_.to(bias_.scalar_type()).unsqueeze(0);
  for (size_t n = 0; n < branch_.size(); ++n) {
    if (n > 0) x = is_tanh ? torch::tanh(x) : torch::gelu(x);
    x = branch_[n]->forward(x);
  }
  return x.view({fields_, options_.basis});
}

std::shared_ptr<void> DeepOnet::hold() {
  if (held_.defined()) return nullptr;
  held_ = coefficients();
  return {static_cast<void*>(this), [this](void*) { held_.reset(); }};
}

Jet DeepOnet::forward(const Jet& points) {
  const auto weights = held_.defined() ? held_ : coefficients();
  auto x = axes_(points);
  for (auto& layer : trunk_) x = activated(nn::apply_linear(layer, x));
  return autodiff::linear(x, weights.to(x.rows().scalar_type()), bias_);
}

}  // namespace propagator::models
