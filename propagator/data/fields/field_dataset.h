#pragma once

#include <map>

#include "propagator/core/device.h"
#include "propagator/data/fields/field_source.h"
#include "propagator/data/fields/watched_files.h"
#include "propagator/data/read_ahead.h"
#include "propagator/data/split.h"
#include "propagator/data/storage.h"

namespace propagator::data {

// Some frames of some cases, where they are used.
struct FieldBatch {
  torch::Tensor frames;          // (B, T, nodes…, C)
  torch::Tensor parameters;      // (B, P)
  torch::Tensor constants = {};  // (B, nodes…, K); undefined if K is 0
};

// All cases of a source, split as is said, and cut into windows of consecutive
// frames to train on. They are in the device's memory, half of which they may
// take, or, with the same numbers, read from the source when they are used;
// DataError then if a file is another one by that time.
class FieldDataset {
 public:
  // DeviceError if they should be in memory and do not fit.
  FieldDataset(const FieldSource& source, const SplitIndices& split,
               const Runtime& runtime, Storage storage = Storage::kAuto);
  FieldDataset(const FieldDataset&) = delete;  // a thread reads from it
  FieldDataset& operator=(const FieldDataset&) = delete;

  int64_t cases(Split split) const { return cases_of_.at(split).size(0); }
  int64_t frames() const { return source_.frames(); }
  const nlohmann::json& note() const { return source_.note(); }
  bool in_memory() const { return values_.defined(); }
  double bytes() const;  // of all fields and constant inputs
  // Windows of so many frames in the split; position p is window p % (T - n +
  // 1) of case p / (T - n + 1).
  int64_t windows(Split split, int64_t length) const;
  FieldBatch windows_at(Split split, const torch::Tensor& positions,
                        int64_t length) const;
  // Says that these windows will be asked for soon: those that are not in
  // memory are read by another thread meanwhile.
  void expect_windows(Split split, const torch::Tensor& positions,
                      int64_t length) const;
  // How many batches of windows that thread has read in time to be used.
  int64_t read_ahead() const { return ahead_->ahead(); }
  // Whole cases [begin, begin + count) of the split, as far as there are.
  FieldBatch range(Split split, int64_t begin, int64_t count) const;
  // Numbers of all cases of the split, (N, P).
  torch::Tensor parameters(Split split) const;
  // Sums that tell the data from others, (2) float64, or (3) with constants.
  const torch::Tensor& fingerprint() const { return fingerprint_; }

 private:
  // Cases and first frames of windows, and how many frames each has.
  struct Windows {
    std::vector<int64_t> cases, first;
    int64_t length;

    bool operator==(const Windows&) const = default;
  };
  // What was read of some, float32 on the CPU.
  struct Read {
    torch::Tensor frames, constants;
  };

  std::vector<int64_t> shape() const;  // of all: cases, time, nodes…, channels
  void read_all(bool keep);
  FieldBatch batch_of(const Read& read, const torch::Tensor& parameters) const;
  Windows windows_of(Split split, const torch::Tensor& positions,
                     int64_t length) const;

  FieldSource source_;
  WatchedFiles files_;
  Runtime runtime_;
  torch::Tensor values_;     // (N, T, nodes…, C), in memory
  torch::Tensor constants_;  // (N, nodes…, K), in memory; undefined if K is 0
  torch::Tensor parameters_;                 // (N, P)
  std::map<Split, torch::Tensor> cases_of_;  // int64, where the data are
  torch::Tensor fingerprint_;
  std::unique_ptr<ReadAhead<Windows, Read>> ahead_;
};

}  // namespace propagator::data
