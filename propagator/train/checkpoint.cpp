#include "propagator/train/checkpoint.h"

#include <fmt/ranges.h>
#include <torch/utils.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/json.h"
#include "propagator/core/sha256.h"
#include "propagator/data/safetensors.h"
#include "propagator/nn/data_shaped.h"

namespace propagator::train {
namespace {

constexpr const char* kSums = "SHA256SUMS";
constexpr const char* kPrefix = "step-";

std::string hint_for_damage() {
  return "`propagator resume RUN --from CHECKPOINT` can start from an older "
         "one";
}

constexpr const char* kModel = "model.safetensors";
constexpr const char* kBest = "best.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kAdapter = "adapter.safetensors";
constexpr const char* kState = "state.json";
constexpr const char* kConfig = "config.yaml";

// A line of SHA256SUMS, and where the name begins in it.
constexpr size_t kNameAt = 66;
std::string sum_line(const std::string& bytes, const std::string& name) {
  return fmt::format("{}  {}", sha256(bytes), name);
}

// Reads these files and checks each against its sum.
std::map<std::string, std::string> read_verified(
    const fs::path& directory, const std::set<std::string>& wanted) {
  if (!fs::is_directory(directory)) {
    throw FileError("no checkpoint at " + directory.string());
  }
  const auto read = [&](const std::string& name) {
    if (fs::exists(directory / name)) return read_file(directory / name);
    throw DataError(
        fmt::format("{} is damaged: it has no {}", directory.string(), name),
        hint_for_damage());
  };
  std::map<std::string, std::string> files;
  std::istringstream sums(read(kSums));
  for (std::string line; std::getline(sums, line);) {
    const auto name = line.substr(std::min(line.size(), kNameAt));
    if (!wanted.contains(name)) continue;
    auto bytes = read(name);
    if (line != sum_line(bytes, name)) {
      throw DataError(fmt::format("{} is damaged: its SHA-256 is not the one "
                                  "in {}",
                                  (directory / name).string(), kSums),
                      hint_for_damage());
    }
    files[name] = std::move(bytes);
  }
  for (const auto& name : wanted) {
    if (!files.contains(name)) {
      throw DataError(fmt::format("{} is damaged: {} does not name {}",
                                  directory.string(), kSums, name),
                      hint_for_damage());
    }
  }
  return files;
}

nlohmann::json parse_state(const std::string& text, const fs::path& file) {
  auto state = parse_json(text);
  const auto step = state.is_object() ? state.value("step", nlohmann::json())
                                      : nlohmann::json();
  if (step.is_number_unsigned() && step.get<int64_t>() >= 0) return state;
  throw DataError(
      fmt::format("{} is damaged: it does not say the step", file.string()),
      hint_for_damage());
}

}  // namespace

void save_checkpoint(const fs::path& directory, const Checkpoint& checkpoint) {
  std::map<std::string, std::string> files{
      {kModel, data::to_safetensors({checkpoint.model, {}})},
      {kBest, data::to_safetensors({checkpoint.best, {}})},
      {kOptimizer, data::to_safetensors({checkpoint.optimizer, {}})},
      {kState, checkpoint.state.dump(2) + "\n"},
      {kConfig, checkpoint.config},
  };
  if (!checkpoint.adapter.tensors.empty()) {
    files[kAdapter] = data::to_safetensors(checkpoint.adapter);
  }
  std::string sums;
  for (const auto& [name, bytes] : files) {
    sums += sum_line(bytes, name) + "\n";
  }
  files[kSums] = sums;
  write_directory_atomically(directory, [&](const fs::path& temporary) {
    for (const auto& [name, bytes] : files) {
      write_file(temporary / name, bytes);
    }
  });
}

Checkpoint load_checkpoint(const fs::path& directory) {
  std::set<std::string> names{kModel, kBest, kOptimizer, kState, kConfig};
  if (fs::exists(directory / kAdapter)) names.insert(kAdapter);
  const auto files = read_verified(directory, names);
  const auto content = [&](const char* name) {
    return data::from_safetensors(files.at(name), (directory / name).string());
  };
  const auto tensors = [&](const char* name) { return content(name).tensors; };
  Checkpoint checkpoint;
  checkpoint.model = tensors(kModel);
  checkpoint.best = tensors(kBest);
  checkpoint.optimizer = tensors(kOptimizer);
  if (files.contains(kAdapter)) checkpoint.adapter = content(kAdapter);
  checkpoint.config = files.at(kConfig);
  checkpoint.state = parse_state(files.at(kState), directory / kState);
  return checkpoint;
}

std::string load_config(const fs::path& directory) {
  return read_verified(directory, {kConfig}).at(kConfig);
}

nlohmann::json load_state(const fs::path& directory) {
  return parse_state(read_verified(directory, {kState}).at(kState),
                     directory / kState);
}

nlohmann::json trained_by(const nlohmann::json& state) {
  return state.value(kTrainedBy,
                     nlohmann::json::array({nlohmann::json::object()}));
}

NamedTensors load_weights(const fs::path& directory, Weights which) {
  const char* name = which == Weights::kBest ? kBest : kModel;
  const auto files = read_verified(directory, {name});
  return data::from_safetensors(files.at(name), (directory / name).string())
      .tensors;
}

fs::path checkpoint_path(const fs::path& folder, int64_t step) {
  return folder / fmt::format("{}{:010d}", kPrefix, step);
}

bool is_checkpoint_name(const std::string& name) {
  return name.starts_with(kPrefix);
}

std::vector<fs::path> list_checkpoints(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (is_checkpoint_name(entry.path().filename().string())) {
      found.push_back(entry.path());
    }
  }
  std::ranges::sort(found);
  return found;
}

NamedTensors copy_parameters(const torch::nn::Module& module) {
  NamedTensors values;
  for (const auto& item : module.named_parameters()) {
    values[item.key()] = item.value().detach().to(torch::kCPU).clone();
  }
  return values;
}

void take_shapes(torch::nn::Module& module, const NamedTensors& values) {
  const auto take = [&](torch::nn::Module& part, const std::string& prefix) {
    auto* shaped = dynamic_cast<nn::DataShaped*>(&part);
    if (shaped != nullptr) shaped->take_shapes(values, prefix);
  };
  take(module, "");
  for (const auto& part : module.named_modules("", /*include_self=*/false)) {
    take(*part.value(), part.key() + ".");
  }
}

void set_parameters(torch::nn::Module& module, const NamedTensors& values,
                    const std::string& source) {
  const torch::NoGradGuard no_grad;
  take_shapes(module, values);
  const auto parameters = module.named_parameters();
  const std::string other =
      "the weights belong to a model of another configuration";
  for (const auto& [name, value] : values) {
    if (!parameters.contains(name)) {
      throw DataError(
          fmt::format("{}: tensor {} is not part of this model", source, name),
          other);
    }
  }
  for (const auto& item : parameters) {
    const auto found = values.find(item.key());
    if (found == values.end()) {
      throw DataError(
          fmt::format("{}: tensor {} is missing", source, item.key()), other);
    }
    if (found->second.sizes() != item.value().sizes()) {
      throw DataError(
          fmt::format("{}: tensor {}: expected shape ({}), got ({})", source,
                      item.key(), fmt::join(item.value().sizes().vec(), ", "),
                      fmt::join(found->second.sizes().vec(), ", ")),
          other);
    }
  }
  for (const auto& item : parameters) {
    item.value().detach().copy_(values.at(item.key()));
  }
}

}  // namespace propagator::train
