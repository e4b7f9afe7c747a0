#pragma once

#include <torch/types.h>

#include <nlohmann/json.hpp>

namespace propagator::tasks {

// What forecasts of fields are off, in the measures of the field's benchmarks.
// For each case, frame and channel, over all nodes,
//   nRMSE = √mean e² / √mean y²,   VRMSE = √(mean e² / (variance of y + 1e-7)),
// then means (nrmse_geometric: over frames the geometric one, which early
// frames count in as late ones do); relative L2 = ‖e‖ / ‖y‖ over all forecast
// frames of a case. Spectral bands have the part of e whose frequencies are 0
// to 4, 5 to 12 and more (the largest along any axis), over ‖y‖: their squares
// add up to nRMSE². Frames also have the nRMSE that a tenth and nine tenths of
// the cases are below.
class FieldErrors {
 public:
  // (B, T, nodes…, C) each, of forecast frames alone.
  void add(const torch::Tensor& truth, const torch::Tensor& answer);

  int64_t cases() const { return cases_; }
  double nrmse() const;
  nlohmann::json numbers(const std::vector<std::string>& channels) const;

 private:
  // Of each frame, over cases.
  std::vector<double> quantile_per_frame(double q) const;
  void add_spectrum(const torch::Tensor& error, const torch::Tensor& scale);

  int64_t cases_ = 0;
  torch::Tensor nrmse_, vrmse_;          // (T, C), over cases
  torch::Tensor squares_, mean_;         // (T, C): e², (mean of e)²
  torch::Tensor bands_;                  // (3)
  std::vector<torch::Tensor> per_case_;  // (B, T): nRMSE, mean of channels
  double relative_ = 0, correlated_ = 0;
};

// Frames until the correlation of truth and answer (B, T, nodes…, C) over all
// nodes and channels, each about its mean, falls below 0.8: (B).
torch::Tensor correlated_frames(const torch::Tensor& truth,
                                const torch::Tensor& answer);

}  // namespace propagator::tasks
