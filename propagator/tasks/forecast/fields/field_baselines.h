#pragma once

#include "propagator/data/fields/field_dataset.h"

namespace propagator::tasks {

// What a forecast of fields is compared with: each continues frames (B, given,
// nodes…, C) by so many.

torch::Tensor keep_field(const torch::Tensor& given, int64_t steps);

// The mean of all training frames, at each node.
class MeanField {
 public:
  explicit MeanField(const data::FieldDataset& data);
  torch::Tensor operator()(const torch::Tensor& given, int64_t steps) const;

 private:
  torch::Tensor mean_;  // (nodes…, C)
};

// The linear answer: frames as their first r principal components z about the
// mean, and z ← z A + b, which fits training frames best (dynamic mode
// decomposition); of several r the one whose rollouts of validation cases are
// least off.
class LinearField {
 public:
  LinearField(const data::FieldDataset& data, int64_t given);
  torch::Tensor operator()(const torch::Tensor& given, int64_t steps) const;
  int64_t rank() const { return basis_.size(1); }

 private:
  torch::Tensor mean_, basis_;   // (F), (F, r)
  torch::Tensor step_, offset_;  // (r, r), (r)
};

}  // namespace propagator::tasks
