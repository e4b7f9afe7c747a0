#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "propagator/core/config.h"
#include "propagator/core/kinds.h"
#include "propagator/core/unused_option.h"

namespace propagator::models {

// What S sensors of a detector saw of B events.
struct Hits {
  torch::Tensor times;      // (B, S) ns, 0 where not hit
  torch::Tensor hit;        // (B, S) bool
  torch::Tensor positions;  // (S, 3) m, of the sensors
  // (B, S) photoelectrons, 0 where not hit; undefined if the detector reports
  // none.
  torch::Tensor charges = {};
};

// Where the events were: the mean and the covariance L Lᵀ of a normal
// distribution.
struct Located {
  torch::Tensor position;  // (B, 3) m
  torch::Tensor factor;    // (B, 3, 3) m, lower triangular L; undefined if the
                           // model says nothing of its uncertainty
};

// The detector a locator works on.
struct DetectorShape {
  int64_t sensors = 8;
  double size = 10;              // m, edge of the volume
  double light_speed = 0.2;      // m/ns, in the medium
  bool event_time_known = true;  // times count from the event
  bool charge = false;           // hits come with charges
};

// A network that says where an event was from the hits of a detector.
class Locator : public torch::nn::Module {
 public:
  virtual Located forward(const Hits& hits) = 0;

  // Sets the weights that training begins with; by default as nn/init.h does.
  virtual void initialise(int64_t seed);

  // Shows how much the summary token attends to each sensor, (B, H, S) for each
  // layer, at every forward; what is missing to one is its attention to itself.
  // A query of a decoder attends to sensors alone; where there is neither, as
  // with a mean of all tokens, nothing is shown. An empty observer ends it.
  using Observer =
      std::function<void(int64_t layer, const torch::Tensor& weights)>;
  void observe(Observer observer) { observer_ = std::move(observer); }

 protected:
  Observer observer_;
};

// The locator that a task's module is.
inline Locator& as_locator(torch::nn::Module& model) {
  return dynamic_cast<Locator&>(model);
}

// UsageError if the tensors of `hits` do not fit together or the detector, of
// which it is only read whether there are charges; `who` asks.
void expect_hits(const Hits& hits, const std::string& who,
                 const DetectorShape& shape = {});

// The mean over events of -log of the normal density at the truth (B, 3),
//   ½ |L⁻¹ (x - μ)|² + Σ log L_ii + 3/2 log 2π.
torch::Tensor gaussian_nll(const Located& located, const torch::Tensor& truth);

// A kind of locator: its options, which also make it.
class LocatorOptions {
 public:
  virtual ~LocatorOptions() = default;
  virtual void describe(config::Schema& schema) = 0;
  // ConfigError if the fields contradict one another or the detector.
  virtual void validate(const DetectorShape& shape) const = 0;
  // Its keys that are without effect beside the others.
  virtual std::vector<config::UnusedOption> unused_options() const {
    return {};
  }
  // Whether answers come with a covariance.
  virtual bool has_uncertainty() const { return false; }
  // Whether a forward waits for numbers from the device, such as the size of
  // what it computes.
  virtual bool reads_back() const { return false; }
  virtual std::shared_ptr<Locator> make(const DetectorShape& shape) const = 0;
};

// The locators by name, as `model.name` in a configuration.
const Kinds<LocatorOptions>& locators();

}  // namespace propagator::models
