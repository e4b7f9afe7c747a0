#include "propagator/train/checkpoint.h"

#include <fmt/ranges.h>
#include <torch/utils.h>

#include <algorithm>
#include <sstream>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/sha256.h"
#include "propagator/data/safetensors.h"

namespace propagator::train {
namespace {

constexpr const char* kSums = "SHA256SUMS";
constexpr const char* kPrefix = "step-";

std::string hint_for_damage() {
  return "`propagator resume RUN --from CHECKPOINT` can start from an older "
         "one";
}

// Reads the files that the sums name and checks each.
std::map<std::string, std::string> read_verified(const fs::path& directory) {
  if (!fs::is_directory(directory)) {
    throw FileError("no checkpoint at " + directory.string());
  }
  std::map<std::string, std::string> files;
  std::istringstream sums(read_file(directory / kSums));
  for (std::string digest, name; sums >> digest >> name;) {
    auto bytes = read_file(directory / fs::path(name).filename());
    if (sha256(bytes) != digest) {
      throw DataError(fmt::format("{} is damaged: its SHA-256 is not the one "
                                  "in {}",
                                  (directory / name).string(), kSums),
                      hint_for_damage());
    }
    files[name] = std::move(bytes);
  }
  for (const char* name :
       {"model.safetensors", "best.safetensors", "optimizer.safetensors",
        "state.json", "config.yaml"}) {
    if (!files.contains(name)) {
      throw DataError(fmt::format("{} is damaged: {} does not name {}",
                                  directory.string(), kSums, name),
                      hint_for_damage());
    }
  }
  return files;
}

}  // namespace

void save_checkpoint(const fs::path& directory, const Checkpoint& checkpoint) {
  std::map<std::string, std::string> files{
      {"model.safetensors", data::to_safetensors({checkpoint.model, {}})},
      {"best.safetensors", data::to_safetensors({checkpoint.best, {}})},
      {"optimizer.safetensors",
       data::to_safetensors({checkpoint.optimizer, {}})},
      {"state.json", checkpoint.state.dump(2) + "\n"},
      {"config.yaml", checkpoint.config},
  };
  std::string sums;
  for (const auto& [name, bytes] : files) {
    sums += fmt::format("{}  {}\n", sha256(bytes), name);
  }
  files[kSums] = sums;
  write_directory_atomically(directory, [&](const fs::path& temporary) {
    for (const auto& [name, bytes] : files) {
      write_file_atomically(temporary / name, bytes);
    }
  });
}

Checkpoint load_checkpoint(const fs::path& directory) {
  const auto files = read_verified(directory);
  const auto tensors = [&](const char* name) {
    return data::from_safetensors(files.at(name), (directory / name).string())
        .tensors;
  };
  Checkpoint checkpoint;
  checkpoint.model = tensors("model.safetensors");
  checkpoint.best = tensors("best.safetensors");
  checkpoint.optimizer = tensors("optimizer.safetensors");
  checkpoint.config = files.at("config.yaml");
  try {
    checkpoint.state = nlohmann::json::parse(files.at("state.json"));
  } catch (const nlohmann::json::exception& error) {
    throw DataError(fmt::format("{}: {}", (directory / "state.json").string(),
                                error.what()));
  }
  return checkpoint;
}

void remove_checkpoint(const fs::path& directory) {
  const auto doomed =
      directory.parent_path() / (".tmp-old-" + directory.filename().string());
  fs::remove_all(doomed);
  fs::rename(directory, doomed);
  fs::remove_all(doomed);
}

fs::path checkpoint_path(const fs::path& folder, int64_t step) {
  return folder / fmt::format("{}{:010d}", kPrefix, step);
}

std::vector<fs::path> list_checkpoints(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().filename().string().starts_with(kPrefix)) {
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

void set_parameters(torch::nn::Module& module, const NamedTensors& values,
                    const std::string& source) {
  const torch::NoGradGuard no_grad;
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
