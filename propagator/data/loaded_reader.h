#pragma once

#include "propagator/data/tensor_file.h"

namespace propagator::data {

// Arrays in memory, behind the reader's interface: of formats that are loaded
// whole. `unread` has the names of what else the file holds.
class LoadedReader : public TensorReader {
 public:
  LoadedReader(const std::filesystem::path& path, TensorFile content,
               std::vector<std::string> unread = {})
      : TensorReader(path),
        content_(std::move(content)),
        unread_(std::move(unread)) {
    for (const auto& [array, tensor] : content_.tensors) {
      shapes_[array] = tensor.sizes().vec();
    }
  }

  const Shapes& shapes() const override { return shapes_; }
  std::vector<std::string> unread() const override { return unread_; }
  std::string note() const override { return content_.note; }
  torch::Tensor block(const std::string& name,
                      const std::vector<int64_t>& begin,
                      const std::vector<int64_t>& count) const override;

 private:
  TensorFile content_;
  Shapes shapes_;
  std::vector<std::string> unread_;
};

}  // namespace propagator::data
