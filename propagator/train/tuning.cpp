#include "propagator/train/tuning.h"

#include <fmt/ranges.h>
#include <fnmatch.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "propagator/core/error.h"
#include "propagator/nn/last_layer.h"
#include "propagator/nn/tuned_part.h"

namespace propagator::train {
namespace {

constexpr const char* kFactors = "factors.";
constexpr const char* kBases = "bases.";

using Named = std::vector<std::pair<std::string, torch::Tensor>>;

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

std::string some_names(const Named& of) {
  std::vector<std::string> names;
  for (const auto& [name, value] : of) names.push_back(name);
  constexpr size_t kShown = 6;
  if (names.size() <= kShown) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{}, … {}",
                     fmt::join(names.begin(), names.begin() + kShown - 1, ", "),
                     names.back());
}

// The names among `of` that the patterns of `key` match; each matches one.
std::set<std::string> chosen(const std::vector<std::string>& patterns,
                             const Named& of, const char* key,
                             const char* what) {
  std::set<std::string> names;
  for (size_t n = 0; n < patterns.size(); ++n) {
    bool found = false;
    for (const auto& [name, value] : of) {
      if (!matches(patterns[n], name)) continue;
      names.insert(name);
      found = true;
    }
    if (found) continue;
    throw ConfigError(
        key, fmt::format("'{}' matches no {} of this model", patterns[n], what),
        fmt::format("* stands for any text; there are {}", some_names(of)),
        static_cast<int64_t>(n));
  }
  return names;
}

// What may be trained at all.
Named trainable(const torch::nn::Module& model) {
  Named all;
  for (const auto& item : model.named_parameters()) {
    if (item.value().requires_grad()) all.emplace_back(item.pair());
  }
  return all;
}

std::set<std::string> of_method(const TuneOptions& o,
                                const torch::nn::Module& model,
                                const Named& all) {
  std::set<std::string> names;
  if (o.method == TuneMethod::kFull) {
    for (const auto& [name, value] : all) names.insert(name);
  }
  if (o.method == TuneMethod::kLastLayer) {
    const auto last = last_layer_of(model);
    names.insert(last.begin(), last.end());
  }
  if (o.method == TuneMethod::kAdapters || o.method == TuneMethod::kPrefix) {
    for (const auto& [name, value] : all) {
      if (nn::is_tuned_part(name)) names.insert(name);
    }
  }
  return names;
}

// The parameters below a module, or that one itself, under a name.
void append(const torch::nn::Module& module, const std::string& prefix,
            const std::string& part, std::vector<std::string>& names) {
  for (const auto& item : module.named_parameters()) {
    const auto& name = item.key();
    if (!item.value().requires_grad()) continue;
    if (name == part || name.starts_with(part + ".")) {
      names.push_back(prefix + name);
    }
  }
}

std::vector<std::string> find_last(const torch::nn::Module& module,
                                   const std::string& prefix) {
  std::vector<std::string> names;
  if (const auto* knows = dynamic_cast<const nn::HasLastLayer*>(&module)) {
    for (const auto& part : knows->last_layer()) {
      append(module, prefix, part, names);
    }
    return names;
  }
  const auto children = module.named_children();
  for (size_t n = children.size(); n > 0; --n) {
    const auto& child = children[n - 1];
    names = find_last(*child.value(), prefix + child.key() + ".");
    if (!names.empty()) return names;
  }
  const auto own = module.named_parameters(/*recurse=*/false);
  bool has_matrix = false;
  for (const auto& item : own) {
    if (!item.value().requires_grad()) continue;
    has_matrix |= item.value().dim() >= 2;
    names.push_back(prefix + item.key());
  }
  return has_matrix ? names : std::vector<std::string>();
}

NamedTensors with_prefix(const NamedTensors& tensors, const char* prefix) {
  NamedTensors named;
  for (const auto& [name, value] : tensors) named[prefix + name] = value;
  return named;
}

NamedTensors without_prefix(const NamedTensors& all,
                            const std::string& prefix) {
  NamedTensors named;
  for (const auto& [name, value] : all) {
    if (name.starts_with(prefix)) named[name.substr(prefix.size())] = value;
  }
  return named;
}

// Of what is added to a model the metadata tell the size: nothing may be made
// that the tensors are not.
void expect_size(const data::Safetensors& adapter, const std::string& ending,
                 const char* key, int64_t size) {
  bool any = false;
  for (const auto& [name, value] : adapter.tensors) {
    if (!name.ends_with(ending)) continue;
    any = true;
    if (value.dim() == 2 && value.size(0) == size) continue;
    throw DataError(fmt::format("its {} is {}, and {} is of another size", key,
                                size, name));
  }
  if (!any) throw DataError(fmt::format("it has no tensor *{}", ending));
}

}  // namespace

void add_parts(const TuneOptions& o, torch::nn::Module& model) {
  for (const auto& name : model.named_parameters().keys()) {
    if (nn::is_tuned_part(name)) return;
  }
  if (o.method == TuneMethod::kAdapters) nn::add_adapters(model, o.width);
  if (o.method == TuneMethod::kPrefix) nn::add_prefixes(model, o.tokens);
}

TuneOptions method_of(const data::Safetensors& adapter) {
  TuneOptions options;
  config::Schema schema;
  options.describe(schema);
  for (const char* key : {"method", "rank", "alpha", "width", "tokens"}) {
    const auto found = adapter.metadata.find(key);
    if (found == adapter.metadata.end()) {
      throw DataError(fmt::format("its metadata have no {}", key));
    }
    try {
      schema.find(key)->set(found->second);
    } catch (const std::invalid_argument& error) {
      throw DataError(
          fmt::format("its {} is {}: {}", key, found->second, error.what()));
    }
  }
  if (options.method == TuneMethod::kAdapters) {
    expect_size(adapter, "adapter.down.weight", "width", options.width);
  }
  if (options.method == TuneMethod::kPrefix) {
    expect_size(adapter, "prefix.keys", "tokens", options.tokens);
  }
  return options;
}

NamedTensors with_adapter(NamedTensors weights,
                          const data::Safetensors& adapter) {
  const auto method = method_of(adapter);
  const double scale = method.alpha / static_cast<double>(method.rank);
  for (const auto& [name, value] : adapter.tensors) {
    if (name.ends_with(kLoraB)) continue;
    if (!name.ends_with(kLoraA)) {
      weights[name] = value;
      continue;
    }
    const auto of = name.substr(0, name.size() - std::strlen(kLoraA));
    const auto weight = weights.find(of);
    const auto b = adapter.tensors.find(of + kLoraB);
    const bool fits =
        weight != weights.end() && b != adapter.tensors.end() &&
        LowRank::fits(weight->second) && value.dim() == 2 &&
        b->second.dim() == 2 && b->second.size(1) == value.size(0) &&
        b->second.size(0) == weight->second.size(0) &&
        value.size(1) * weight->second.size(0) == weight->second.numel();
    if (!fits) {
      throw DataError(fmt::format("its change of {} fits no weight", of));
    }
    const auto type = weight->second.scalar_type();
    weight->second = with_low_rank(weight->second, value.to(type),
                                   b->second.to(type), scale);
  }
  return weights;
}

std::vector<std::string> last_layer_of(const torch::nn::Module& model) {
  return find_last(model, "");
}

Tuning::Tuning(const TuneOptions& o, torch::nn::Module& model, int64_t seed)
    : options_(o) {
  const auto all = trainable(model);
  if (all.empty()) {
    throw ConfigError("tune.from",
                      "this model is fitted, not trained: there is nothing to "
                      "fine-tune",
                      "leave tune.from out");
  }
  for (const auto& item : model.named_parameters()) {
    if (o.units == TuneUnits::kBase || item.value().requires_grad()) continue;
    units_.emplace_back(item.key(), item.value());
  }
  auto whole = of_method(o, model, all);
  whole.merge(chosen(o.train, all, "tune.train", "parameter"));
  const auto frozen = chosen(o.freeze, all, "tune.freeze", "parameter");
  std::set<std::string> changed;
  if (o.method == TuneMethod::kLora) {
    Named matrices;
    std::ranges::copy_if(all, std::back_inserter(matrices),
                         [](const auto& p) { return LowRank::fits(p.second); });
    changed = chosen(o.targets, matrices, "tune.targets", "matrix");
  }
  for (const auto& [name, value] : all) {
    if (frozen.contains(name)) {
      frozen_.push_back(value);
    } else if (whole.contains(name)) {
      trained_.emplace_back(name, value);
    } else if (changed.contains(name)) {
      low_rank_.add(name, value,
                    {.rank = o.rank, .alpha = o.alpha, .seed = seed});
    } else {
      frozen_.push_back(value);
    }
  }
  if (parameters() == 0) {
    throw ConfigError("tune.freeze", "it leaves nothing to train",
                      "freeze less, or name what to train in tune.train");
  }
  for (auto& value : frozen_) value.set_requires_grad(false);
}

int64_t Tuning::parameters() const {
  int64_t count = 0;
  for (const auto& [name, value] : trained_) count += value.numel();
  for (const auto& [name, value] : low_rank_.factors()) count += value.numel();
  return count;
}

NamedTensors Tuning::adapter() const {
  auto all = low_rank_.factors();
  all.insert(trained_.begin(), trained_.end());
  all.insert(units_.begin(), units_.end());
  for (auto& [name, value] : all) {
    value = value.detach().to(torch::kCPU).clone();
  }
  return all;
}

void Tuning::describe_base(std::map<std::string, std::string> base) {
  base_ = std::move(base);
}

std::map<std::string, std::string> Tuning::metadata() const {
  auto all = base_;
  all["method"] = config::name_of(options_.method);
  all["rank"] = config::print(options_.rank);
  all["alpha"] = config::print(options_.alpha);
  all["width"] = config::print(options_.width);
  all["tokens"] = config::print(options_.tokens);
  return all;
}

NamedTensors Tuning::state() const {
  auto all = with_prefix(low_rank_.factors(), kFactors);
  all.merge(with_prefix(low_rank_.bases(), kBases));
  return all;
}

void Tuning::restore(const NamedTensors& state,
                     const data::Safetensors& adapter) {
  if (adapter.tensors.empty()) {
    throw DataError("[tune] the checkpoint has no adapter.safetensors");
  }
  base_ = adapter.metadata;
  low_rank_.restore(without_prefix(state, kFactors),
                    without_prefix(state, kBases));
}

void Tuning::release() {
  for (auto& value : frozen_) value.set_requires_grad(true);
}

}  // namespace propagator::train
