#pragma once

#include <torch/types.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "propagator/models/locator.h"

namespace propagator::tasks {

// Events of a batch in the detector lecture's resolution.
inline constexpr int64_t kLectureBatch = 32;

// How far answers are from the truth, in m.
struct DistanceErrors {
  double resolution = 0;  // the lecture's: mean over batches of 32 of √MSE
  double median = 0, ninety = 0, mean = 0;  // of the distance

  nlohmann::json to_json() const;
};
// positions, truth: (N, 3)
DistanceErrors distance_errors(const torch::Tensor& positions,
                               const torch::Tensor& truth);

torch::Tensor distances(const torch::Tensor& positions,
                        const torch::Tensor& truth);  // (N)

// The value below which this share of them lies.
double value_at(const torch::Tensor& values, double share);

// Medians of `values` in classes 0 … count-1; NaN where there are few.
std::vector<double> medians_by(const torch::Tensor& classes,
                               const torch::Tensor& values, int64_t count);

// Densities of `values` on equal bins of [-reach, reach]; what is beyond does
// not count.
nlohmann::json densities(const torch::Tensor& values, double reach);

// L⁻¹ (truth - position), (N, 3): normal if the model's uncertainty is right.
torch::Tensor pulls_of(const models::Located& located,
                       const torch::Tensor& truth);
// Their mean, spread and densities, and the share in the region of 68.3 %.
nlohmann::json describe_pulls(const torch::Tensor& pulls);

}  // namespace propagator::tasks
