#pragma once

#include "propagator/physics/detector/light_events.h"
#include "propagator/tasks/density/inference.h"

namespace propagator::tasks {

// Where was the event, given which sensors were hit and when? Uniform in the
// detector's volume before anything is observed. The classical answer is the
// maximum of the simulator's likelihood.
class VertexInference : public Inference {
 public:
  // ConfigError if these are no options of a detector that can be asked: with
  // jitter, and a known time of the event.
  explicit VertexInference(const physics::DetectorOptions& options);

  std::vector<std::string> unknowns() const override;
  std::vector<std::string> observed() const override;
  std::string describe() const override;
  Pairs draw(int64_t seed, int64_t begin, int64_t count) const override;
  torch::Tensor estimate(const torch::Tensor& observed) const override;
  std::string name_of_estimate() const override { return "maximum likelihood"; }
  torch::Tensor log_joint(const torch::Tensor& unknown,
                          const torch::Tensor& observed) const override;

 private:
  // Hits and times as columns, and back.
  physics::Events events_of(const torch::Tensor& observed) const;

  physics::Detector detector_;
};

}  // namespace propagator::tasks
