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
        unread_(std::move(unread)) {}

  std::map<std::string, std::vector<int64_t>> shapes() const override;
  std::vector<std::string> unread() const override { return unread_; }
  std::string note() const override { return content_.note; }
  torch::Tensor rows(const std::string& name, int64_t begin,
                     int64_t count) const override;

 private:
  TensorFile content_;
  std::vector<std::string> unread_;
};

}  // namespace propagator::data
