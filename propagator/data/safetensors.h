#pragma once

#include <torch/types.h>

#include <filesystem>
#include <map>
#include <string>

namespace propagator::data {

// The safetensors format: 8 bytes of header length (little endian), a JSON
// header {name: {dtype, shape, data_offsets}}, then the tensors' bytes.
// No code is run on reading, and every offset is checked.
struct Safetensors {
  std::map<std::string, torch::Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

// Bytes of the format; tensors are taken to the CPU and made contiguous.
std::string to_safetensors(const Safetensors& content);
// DataError names `source` and what is wrong with it.
Safetensors from_safetensors(const std::string& bytes,
                             const std::string& source);

void save_safetensors(const std::filesystem::path& path,
                      const Safetensors& content);
Safetensors load_safetensors(const std::filesystem::path& path);

}  // namespace propagator::data
