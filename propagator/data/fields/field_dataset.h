#pragma once

#include <map>

#include "propagator/core/device.h"
#include "propagator/data/fields/field_source.h"
#include "propagator/data/split.h"

namespace propagator::data {

// Some frames of some cases, where they are used.
struct FieldBatch {
  torch::Tensor frames;      // (B, T, nodes…, C)
  torch::Tensor parameters;  // (B, P)
};

// All cases of a source in the device's memory, split as its files are or
// 70/20/10, and cut into windows of consecutive frames to train on.
class FieldDataset {
 public:
  // DeviceError if they do not fit.
  FieldDataset(const FieldSource& source, int64_t seed, const Runtime& runtime);

  int64_t cases(Split split) const { return cases_of_.at(split).size(0); }
  int64_t frames() const { return values_.size(1); }
  // Windows of so many frames in the split; position p is window p % (T - n +
  // 1) of case p / (T - n + 1).
  int64_t windows(Split split, int64_t length) const;
  FieldBatch windows_at(Split split, const torch::Tensor& positions,
                        int64_t length) const;
  // Whole cases [begin, begin + count) of the split, as far as there are.
  FieldBatch range(Split split, int64_t begin, int64_t count) const;
  // Sums that tell the data from others, (2) float64.
  const torch::Tensor& fingerprint() const { return fingerprint_; }

 private:
  Runtime runtime_;
  torch::Tensor values_, parameters_;        // (N, T, nodes…, C), (N, P)
  std::map<Split, torch::Tensor> cases_of_;  // int64, where the data are
  torch::Tensor fingerprint_;
};

}  // namespace propagator::data
