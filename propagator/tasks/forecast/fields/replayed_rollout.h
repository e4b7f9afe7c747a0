#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "propagator/core/device.h"
#include "propagator/models/field_forecaster.h"

namespace propagator::tasks {

// A forecaster's rollouts for those who ask again and again, without gradients
// and in several threads. A GPU computes a few cases faster than the host
// launches the kernels: there rollouts of one shape are a CUDA graph from the
// fourth on.
class ReplayedRollout {
 public:
  ReplayedRollout(models::FieldForecaster& model, const Runtime& runtime);
  ~ReplayedRollout();

  // As FieldForecaster::rollout.
  torch::Tensor operator()(const torch::Tensor& given, const models::Told& told,
                           int64_t steps,
                           const std::function<void(int64_t)>& progress = {});

 private:
  struct Kept;  // of one shape
  Kept& kept_for(const torch::Tensor& given, const models::Told& told,
                 int64_t steps);

  models::FieldForecaster& model_;
  bool possible_;
  std::mutex mutex_;
  std::map<std::vector<int64_t>, std::unique_ptr<Kept>> kept_;
};

}  // namespace propagator::tasks
