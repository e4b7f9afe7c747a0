#include "propagator/nn/tuned_part.h"

#include <fmt/format.h>
#include <torch/types.h>

#include "propagator/core/error.h"
#include "propagator/nn/adapter.h"
#include "propagator/nn/learned_prefix.h"

namespace propagator::nn {
namespace {

// Hands every part of that kind to `add`; what it adds goes where the rest is.
template <class Kind, class Add>
bool add_everywhere(torch::nn::Module& model, const Add& add) {
  const auto parameters = model.parameters();
  if (parameters.empty()) return false;
  const auto device = parameters.front().device();
  const auto type = parameters.front().scalar_type();
  bool found = false;
  for (const auto& part : model.modules()) {
    auto* place = dynamic_cast<Kind*>(part.get());
    if (place == nullptr) continue;
    add(*place);
    const auto children = part->named_children();
    for (const auto& name : {kAdapterName, kPrefixName}) {
      const auto* added = children.find(name);
      if (added != nullptr) (*added)->to(device, type);
    }
    found = true;
  }
  return found;
}

}  // namespace

void add_adapters(torch::nn::Module& model, int64_t width) {
  if (add_everywhere<TakesAdapter>(
          model, [&](auto& layer) { layer.add_adapter(width); })) {
    return;
  }
  throw UsageError(
      "this model has no feed-forward blocks that adapters could follow",
      "tune.method=lora changes the matrices of every model");
}

void add_prefixes(torch::nn::Module& model, int64_t tokens) {
  if (add_everywhere<TakesPrefix>(
          model, [&](auto& attention) { attention.add_prefix(tokens); })) {
    return;
  }
  throw UsageError(
      "this model has no attention among tokens that could see learned ones",
      "tune.method=lora changes the matrices of every model");
}

void reset_tuned_parts(torch::nn::Module& model, int64_t seed) {
  const auto parts = model.named_modules("", /*include_self=*/false);
  for (const auto& part : parts) {
    if (auto* adapter = part.value()->as<Adapter>()) {
      adapter->reset(seed, part.key());
    }
    if (auto* prefix = part.value()->as<LearnedPrefix>()) {
      prefix->reset(seed, part.key());
    }
  }
}

bool is_tuned_part(const std::string& parameter) {
  const auto dotted = fmt::format(".{}", parameter);
  return dotted.find(fmt::format(".{}.", kAdapterName)) != dotted.npos ||
         dotted.find(fmt::format(".{}.", kPrefixName)) != dotted.npos;
}

}  // namespace propagator::nn
