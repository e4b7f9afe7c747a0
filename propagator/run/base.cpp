#include "propagator/run/base.h"

#include <fmt/ranges.h>
#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/sha256.h"
#include "propagator/data/safetensors.h"
#include "propagator/nn/data_shaped.h"
#include "propagator/nn/tuned_part.h"
#include "propagator/tasks/registry.h"
#include "propagator/train/run_directory.h"

namespace propagator::run {
namespace {

constexpr const char* kBaseHash = "base_sha256";
constexpr const char* kKey = "tune.from";

std::string shape_of(const torch::Tensor& value) {
  return fmt::format("({})", fmt::join(value.sizes().vec(), ", "));
}

fs::path newest_checkpoint(const fs::path& folder) {
  const auto run = train::RunDirectory::open(folder);
  const auto all = train::list_checkpoints(run.checkpoints());
  if (!all.empty()) return all.back();
  throw ConfigError(kKey,
                    fmt::format("{} has no checkpoint yet", folder.string()),
                    "`propagator resume` goes on with it");
}

Base read_run(const Experiment& experiment, const fs::path& folder) {
  const bool is_checkpoint =
      train::is_checkpoint_name(folder.filename().string());
  const auto checkpoint = is_checkpoint ? folder : newest_checkpoint(folder);
  const auto config = config::Document::from_text(
      train::load_config(checkpoint), checkpoint.string());
  const auto task = tasks::task_of(config);
  if (task != experiment.run().task) {
    throw ConfigError(
        kKey,
        fmt::format("{} is of task {}, and this configuration of task {}",
                    folder.string(), task, experiment.run().task),
        "begin from a run of the same task and model");
  }
  return {folder.string(), config.get("model.name").value_or(""),
          train::load_weights(checkpoint, train::Weights::kBest)};
}

Base read_weights(const fs::path& file) {
  auto content = data::load_safetensors(file);
  if (content.metadata.contains(kBaseHash)) {
    throw ConfigError(
        kKey, fmt::format("{} is an adapter, not a whole model", file.string()),
        "begin from the run that it was trained in, or write both as one file: "
        "propagator report BASE --adapter FILE --weights NEW.safetensors");
  }
  return {file.string(), "", std::move(content.tensors)};
}

// Whether a part of the model answers from data that it keeps.
bool answers_from_data(const torch::nn::Module& model) {
  for (const auto& part : model.modules()) {
    if (dynamic_cast<const nn::DataShaped*>(part.get()) != nullptr) return true;
  }
  return false;
}

// Of the first parameter that differs.
ConfigError other_model(const Base& base, const Experiment& experiment,
                        const std::string& difference) {
  const auto* name = experiment.schema().find("model.name");
  const auto here = name == nullptr ? "" : name->get();
  const auto hint =
      base.model.empty() || base.model == here
          ? std::string(
                "the keys of `model`, and what decides its shapes, must "
                "be those that the weights were trained with")
          : fmt::format("it is a {}, and this configuration makes a {}",
                        base.model, here);
  return {kKey,
          fmt::format("the weights of {} are of another model: {}", base.source,
                      difference),
          hint};
}

}  // namespace

std::string hash_of(const train::NamedTensors& weights) {
  return sha256(data::to_safetensors({weights, {}}));
}

std::map<std::string, std::string> description_of(const Base& base) {
  return {{"base", base.source}, {kBaseHash, hash_of(base.weights)}};
}

Base read_base(const Experiment& experiment) {
  return experiment.with_place([&] {
    const fs::path from(experiment.tune().from);
    if (!fs::exists(from)) {
      throw ConfigError(
          kKey, fmt::format("there is no run or file {}", from.string()),
          "train it first, or name another with --from; paths are as seen from "
          "the current folder");
    }
    auto base = fs::is_directory(from) ? read_run(experiment, from)
                                       : read_weights(from);
    for (const auto& name : experiment.task().former_parameters()) {
      base.weights.erase(name);
    }
    return base;
  });
}

void begin_from(const Base& base, const Experiment& experiment,
                torch::nn::Module& model) {
  const torch::NoGradGuard no_grad;
  const auto parameters = model.named_parameters();
  const bool keeps_data = answers_from_data(model) ||
                          experiment.tune().units == train::TuneUnits::kData;
  experiment.with_place([&] {
    for (const auto& [name, value] : base.weights) {
      if (parameters.contains(name)) continue;
      throw other_model(base, experiment,
                        fmt::format("{} is no parameter here", name));
    }
    train::NamedTensors taken;
    for (const auto& item : parameters) {
      const auto& name = item.key();
      const auto found = base.weights.find(name);
      if (found == base.weights.end() && nn::is_tuned_part(name)) continue;
      if (keeps_data && !item.value().requires_grad()) continue;
      if (found == base.weights.end()) {
        throw other_model(base, experiment, fmt::format("they lack {}", name));
      }
      if (found->second.sizes() != item.value().sizes()) {
        throw other_model(
            base, experiment,
            fmt::format("{} is {} there and {} here", name,
                        shape_of(found->second), shape_of(item.value())));
      }
      taken[name] = found->second;
    }
    for (const auto& [name, value] : taken) {
      parameters[name].detach().copy_(value);
    }
  });
}

Base read_fitting_base(const Experiment& experiment) {
  auto base = read_base(experiment);
  const auto model = experiment.new_model();
  if (!answers_from_data(*model)) begin_from(base, experiment, *model);
  experiment.make_tuning(*model);
  return base;
}

train::NamedTensors weights_with_adapter(torch::nn::Module& model,
                                         const train::NamedTensors& weights,
                                         const fs::path& file) {
  const auto adapter = data::load_safetensors(file);
  const auto hash = adapter.metadata.find(kBaseHash);
  if (hash == adapter.metadata.end()) {
    throw DataError(fmt::format("{} is no adapter: it does not say of which "
                                "weights",
                                file.string()),
                    "an adapter is adapter.safetensors in a checkpoint of a "
                    "fine-tuned run");
  }
  const auto here = hash_of(weights);
  if (hash->second != here) {
    const auto base = adapter.metadata.find("base");
    throw DataError(
        fmt::format("{} is the adapter of another model: of weights with "
                    "SHA-256 {:.12}…, and these have {:.12}…",
                    file.string(), hash->second, here),
        base == adapter.metadata.end()
            ? "give the run that it was trained from"
            : fmt::format("it was trained from {}", base->second));
  }
  try {
    train::add_parts(train::method_of(adapter), model);
    return train::with_adapter(weights, adapter);
  } catch (const DataError& error) {
    throw DataError(
        fmt::format("{} is damaged: {}", file.string(), error.what()));
  }
}

}  // namespace propagator::run
