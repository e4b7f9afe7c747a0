#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <vector>

#include "propagator/core/config.h"
#include "propagator/core/kinds.h"

namespace propagator::models {

// What frames are made of. The number of nodes along an axis is no part of it:
// a network works on every grid that is large enough for it.
struct FrameShape {
  std::vector<bool> periodic = {true};  // of each of one to three axes
  int64_t channels = 1;
  int64_t given = 1;       // frames that a forecast begins with
  int64_t conditions = 0;  // numbers at each node that stay as they are

  int64_t axes() const { return std::ssize(periodic); }
};

// How many numbers of a node stay as they are: conditions and places.
int64_t known_numbers(const FrameShape& shape);
// Fields with what stays as it is behind the numbers of each node: conditions
// (B, nodes…, Q) and places from -1 to 1 along the axes that are not periodic;
// on the others no node differs from another. (B, T, nodes…, C) → (B, T,
// nodes…, C + Q + places).
torch::Tensor with_known(const torch::Tensor& fields,
                         const torch::Tensor& conditions,
                         const FrameShape& shape);

// ConfigError unless every axis has room for a convolution that sees so many
// nodes either way.
void check_reach(int64_t reach, const std::vector<int64_t>& nodes);

// Frames in the making, from those that were appended so far.
class FrameRollout {
 public:
  virtual ~FrameRollout() = default;
  // Appends frames (B, n, nodes…, C), `given` of them at first, and returns
  // what the network answers to the last: (B, nodes…, C).
  virtual torch::Tensor append(const torch::Tensor& frames) = 0;
};

// A network that answers to each frame from it and those before it; in numbers
// of order one, and with as many answers as there are channels. The first
// answer is that to frame `given - 1`, since all before it are given.
class FrameNet : public torch::nn::Module {
 public:
  explicit FrameNet(const FrameShape& shape) : shape_(shape) {}

  // As in training, to all frames at once: (B, T, nodes…, C) and conditions
  // (B, nodes…, Q) → (B, T - given + 1, nodes…, C).
  virtual torch::Tensor forward(const torch::Tensor& frames,
                                const torch::Tensor& conditions) = 0;
  // The same frame by frame. By default only the last `given` frames count. It
  // refers to the network.
  virtual std::unique_ptr<FrameRollout> begin(const torch::Tensor& conditions);
  // Uniform on ±1/√(numbers that an output is made of).
  virtual void initialise(int64_t seed);

  const FrameShape& shape() const { return shape_; }

 protected:
  // Of how many frames there are answers; std::invalid_argument if of none.
  int64_t answers_to(const torch::Tensor& frames) const;

 private:
  FrameShape shape_;
};

// A network over windows of `given` frames, which are the channels of a field:
// (M, nodes…, given · C + Q + places) → (M, nodes…, C).
class WindowNet : public FrameNet {
 public:
  using FrameNet::FrameNet;
  torch::Tensor forward(const torch::Tensor& frames,
                        const torch::Tensor& conditions) override;

 protected:
  static int64_t inputs_of(const FrameShape& shape);
  virtual torch::Tensor answer(const torch::Tensor& inputs) = 0;
};

// A kind of network: its options, which also make it.
class FrameNetOptions {
 public:
  virtual ~FrameNetOptions() = default;
  virtual void describe(config::Schema& schema) = 0;
  // Chooses what is left open as suits the `nodes` along each axis, which are
  // known where data are. ConfigError if the fields contradict one another, the
  // shape or the nodes.
  virtual void settle(const FrameShape& shape,
                      const std::vector<int64_t>& nodes) = 0;
  virtual std::shared_ptr<FrameNet> make(const FrameShape& shape) const = 0;
};

// The networks by name, as `model.name` in a configuration.
const Kinds<FrameNetOptions>& frame_nets();

// What an answer is: how much the frame changes until the next, or the next
// frame itself.
enum class Answer { kChange, kField };

// A forecaster of fields in their own units, which it takes from training data:
//   next = frame + σ_change · net(…)   or   μ + σ · net(…),
// where the network sees (frame - μ) / σ, channel by channel, and the numbers
// of a case, scaled the same way.
class FieldForecaster : public torch::nn::Module {
 public:
  FieldForecaster(std::shared_ptr<FrameNet> net, Answer answer,
                  int64_t parameters);

  // Takes the units from frames (N, T, nodes…, C), as `next` gives them until
  // it gives none, and parameters (N, P) of all cases.
  void calibrate(const std::function<torch::Tensor()>& next,
                 const torch::Tensor& parameters);

  // What follows each frame from the last given one on, in one pass: (B, T,
  // nodes…, C) → (B, T - given + 1, nodes…, C).
  torch::Tensor forward(const torch::Tensor& frames,
                        const torch::Tensor& parameters);
  // So many frames after the given ones, each from those before it as they were
  // forecast: (B, given, nodes…, C) → (B, steps, nodes…, C). Differentiable.
  torch::Tensor rollout(const torch::Tensor& given,
                        const torch::Tensor& parameters, int64_t steps,
                        const std::function<void(int64_t)>& progress = {});

  void initialise(int64_t seed) { net_->initialise(seed); }
  const FrameShape& shape() const { return net_->shape(); }
  // Of each channel: what errors are measured in, in training and by noise.
  const torch::Tensor& deviation() const { return deviation_; }
  torch::Tensor answer_scale() const;

 private:
  torch::Tensor scaled(const torch::Tensor& frames) const;
  torch::Tensor conditions(const torch::Tensor& parameters,
                           const torch::Tensor& frame) const;
  torch::Tensor next(const torch::Tensor& frames,
                     const torch::Tensor& answers) const;

  std::shared_ptr<FrameNet> net_;
  Answer answer_;
  torch::Tensor mean_, deviation_, change_;             // (C)
  torch::Tensor parameter_mean_, parameter_deviation_;  // (P)
};

// The forecaster that a task's module is.
inline FieldForecaster& as_field_forecaster(torch::nn::Module& model) {
  return dynamic_cast<FieldForecaster&>(model);
}

}  // namespace propagator::models

namespace propagator::config {

template <>
struct Names<models::Answer> {
  using enum models::Answer;
  static constexpr std::pair<models::Answer, const char*> all[] = {
      {kChange, "change"}, {kField, "field"}};
};

}  // namespace propagator::config
