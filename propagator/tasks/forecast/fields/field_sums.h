#pragma once

#include <torch/types.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace propagator::tasks {

// How far sums over all nodes, which should stay what they are, have moved in
// each frame of forecasts: |Σ u_t - Σ u_last| / Σ |u_last| for each channel of
// those asked for, with the last given frame; the mean over cases.
class SumDrift {
 public:
  explicit SumDrift(std::vector<int64_t> channels)
      : channels_(std::move(channels)) {}

  // The last given frame (B, nodes…, C), and later ones (B, T, nodes…, C).
  void add(const torch::Tensor& last, const torch::Tensor& later);
  // The largest of any frame, of each channel, and of each frame.
  nlohmann::json numbers(const std::vector<std::string>& names) const;

 private:
  std::vector<int64_t> channels_;
  torch::Tensor sum_;  // (T, channels), over cases
  int64_t cases_ = 0;
};

}  // namespace propagator::tasks
