#pragma once

#include "propagator/models/frame_net.h"

namespace propagator::models {

// What an answer is: how much the frame changes until the next (with a block
// mask: the last given one until that), or the next frame itself.
enum class Answer { kChange, kField };

// What a forecast is told of each case beside its frames.
struct Told {
  Told(torch::Tensor its_numbers, torch::Tensor its_constants = {})
      : numbers(std::move(its_numbers)), constants(std::move(its_constants)) {}

  Told part(int64_t begin, int64_t count) const;  // of the cases
  Told first(int64_t count) const { return part(0, count); }
  Told repeated(int64_t count) const;  // of one case

  torch::Tensor numbers;    // (B, P)
  torch::Tensor constants;  // (B, nodes…, K); undefined if K is 0
};

// Whole cases to take units from.
struct CaseFrames {
  CaseFrames(torch::Tensor its_frames = {}, torch::Tensor its_constants = {})
      : frames(std::move(its_frames)), constants(std::move(its_constants)) {}

  torch::Tensor frames;     // (N, T, nodes…, C)
  torch::Tensor constants;  // (N, nodes…, K); undefined if K is 0
};

// A forecaster of fields in their own units, which it takes from training data:
//   next = frame + σ_change · net(…)   or   μ + σ · net(…),
// where the network sees (frame - μ) / σ, channel by channel, and the numbers
// and constant inputs of a case, scaled the same way. With a block mask frame n
// after the last given one, f, is
//   f + σ_n · net(…)_n,   σ_n the root mean square of such changes,
// or as above.
class FieldForecaster : public torch::nn::Module {
 public:
  FieldForecaster(std::shared_ptr<FrameNet> net, Answer answer,
                  int64_t parameters, int64_t constants = 0);

  // Takes the units from cases as `next` gives them until it gives none, and
  // parameters (N, P) of all of them.
  void calibrate(const std::function<CaseFrames()>& next,
                 const torch::Tensor& parameters);

  // What follows each frame from the last given one on, in one pass: (B, T,
  // nodes…, C) → (B, T - given + 1, nodes…, C). With a block mask from the
  // given frames alone.
  torch::Tensor forward(const torch::Tensor& frames, const Told& told);
  // The same, each from the true frames before it.
  torch::Tensor one_step(const torch::Tensor& frames, const Told& told);
  // So many frames after the given ones: (B, given, nodes…, C) → (B, steps,
  // nodes…, C), each from those before it as they were forecast, or at once.
  // Differentiable. std::invalid_argument if there are more than a block has.
  torch::Tensor rollout(const torch::Tensor& given, const Told& told,
                        int64_t steps,
                        const std::function<void(int64_t)>& progress = {});

  void initialise(int64_t seed) { net_->initialise(seed); }
  const FrameShape& shape() const { return net_->shape(); }
  // Of each channel, and of each number that cases are told.
  const torch::Tensor& mean() const { return mean_; }
  const torch::Tensor& deviation() const { return deviation_; }
  const torch::Tensor& parameter_mean() const { return parameter_mean_; }
  // What errors of so many answers are measured in, in training.
  torch::Tensor answer_scale(int64_t answers) const;

 private:
  torch::Tensor scaled(const torch::Tensor& frames) const;
  // Numbers and constant inputs at each node: (B, nodes…, P + K).
  torch::Tensor conditions(const Told& told, const torch::Tensor& frame) const;
  // Of frames that answers are to, or of the last given one.
  torch::Tensor next(const torch::Tensor& frames,
                     const torch::Tensor& answers) const;
  // std::invalid_argument if a block has not so many.
  void expect_answers(int64_t answers) const;
  // Of one change, (C); of those of a block, (answers, 1…, C).
  torch::Tensor change_scale(int64_t answers) const;

  std::shared_ptr<FrameNet> net_;
  Answer answer_;
  torch::Tensor mean_, deviation_;                      // (C)
  torch::Tensor change_;                                // (C) or (block, C)
  torch::Tensor parameter_mean_, parameter_deviation_;  // (P)
  torch::Tensor constant_mean_, constant_deviation_;    // (K), if there are any
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
