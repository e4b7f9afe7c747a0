#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "propagator/core/config.h"
#include "propagator/core/kinds.h"

namespace propagator::models {

// The histories a forecaster works on.
struct FieldShape {
  int64_t frames, rows, cols;
  bool variance = false;  // whether it is to say how far off it may be
};

// Frames as normal numbers, (B, T, R, C) each. The deviation is 0 where a model
// leaves no doubt, as on nodes that never change.
struct FrameSpread {
  torch::Tensor mean, deviation;
};

// Parts of a forecaster that make a picture; undefined where it has no such
// part.
struct Internals {
  torch::Tensor time_encoding;    // (T, C)
  torch::Tensor mask;             // (T, T), true where query i sees key j
  torch::Tensor output_emphasis;  // (R, C), mean |weight| behind each node
};

// A network that continues a field in time. B histories of T frames.
class Forecaster : public torch::nn::Module {
 public:
  // All frames at once, as in training: (B, T, R, C), α (B) → (B, T, R, C). An
  // honest model that is not autoregressive is also given the visible frames
  // alone, (B, visible, R, C): that is how it is tested.
  virtual torch::Tensor forward(const torch::Tensor& frames,
                                const torch::Tensor& alpha) = 0;
  // From the visible frames alone: (B, visible, R, C) → (B, T, R, C), the
  // given frames first. An autoregressive model feeds itself its own frames.
  // `progress` is called with the number of frames done.
  virtual torch::Tensor predict(
      const torch::Tensor& first, const torch::Tensor& alpha,
      const std::function<void(int64_t)>& progress = {}) = 0;

  // As `forward`, each frame with the standard deviation that is predicted for
  // its nodes. UsageError from a model that predicts none.
  virtual bool predicts_variance() const { return false; }
  virtual FrameSpread spread(const torch::Tensor& frames,
                             const torch::Tensor& alpha);
  // One trajectory of each case, from the visible frames alone: frame t is
  // mean + deviation · noise(t), and an autoregressive model is fed what was
  // drawn. noise(t) gives (B, 1, R, C).
  using FrameNoise = std::function<torch::Tensor(int64_t)>;
  virtual torch::Tensor draw(const torch::Tensor& first,
                             const torch::Tensor& alpha,
                             const FrameNoise& noise,
                             const std::function<void(int64_t)>& progress = {});
  // The networks that it is the mean of; itself alone unless it is an ensemble.
  virtual std::vector<Forecaster*> members() { return {this}; }

  // Only the frames `times` of `predict`: (B, times, R, C). A model that does
  // not need the others for them saves their work.
  virtual torch::Tensor predict_at(const torch::Tensor& first,
                                   const torch::Tensor& alpha,
                                   const std::vector<int64_t>& times);

  // Takes what a new model needs of the training data before it learns, such
  // as units. `next` gives (B, T, R, C) histories, and an undefined tensor
  // after the last.
  using NextFrames = std::function<torch::Tensor()>;
  virtual void calibrate(const NextFrames&) {}

  // Where training cases have no α, the model is to do without it from then
  // on, and to say so. By default it cannot.
  virtual void drop_alpha() {}
  virtual bool uses_alpha() const { return true; }

  virtual Internals internals() const { return {}; }
  // What one case of `predict_at` costs, about: floating-point operations.
  virtual double work_of(const std::vector<int64_t>& times) const;
  virtual int64_t visible() const = 0;
  virtual bool autoregressive() const = 0;
  // In `forward`, output frame `output` must not depend on this input frame or
  // later ones.
  virtual int64_t first_hidden(int64_t output) const = 0;
};

// The forecaster that a task's module is.
inline Forecaster& as_forecaster(torch::nn::Module& model) {
  return dynamic_cast<Forecaster&>(model);
}

// The heat-plate paper's own test of an autoregressive model: the input is the
// truth, and pass by pass the next `stride` frames of it are replaced by the
// model's output, each pass over the whole sequence. With published inputs the
// truth leaks into every replaced frame.
torch::Tensor published_rollout(
    Forecaster& model, const torch::Tensor& truth, const torch::Tensor& alpha,
    int64_t stride, const std::function<void(int64_t)>& progress = {});

// A kind of forecaster: its options, which also make it.
class ForecasterOptions {
 public:
  virtual ~ForecasterOptions() = default;
  virtual void describe(config::Schema& schema) = 0;
  // ConfigError if the fields contradict one another or the field's shape.
  virtual void validate(const FieldShape& shape) const = 0;
  // False if the model is built as published, leak included.
  virtual bool honest() const = 0;
  virtual bool autoregressive() const = 0;
  virtual std::shared_ptr<Forecaster> make(const FieldShape& shape) const = 0;
};

// The forecasters by name, as `model.name` in a configuration.
const Kinds<ForecasterOptions>& forecasters();

}  // namespace propagator::models
