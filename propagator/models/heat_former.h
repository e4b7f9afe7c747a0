#pragma once

#include "propagator/models/forecaster.h"
#include "propagator/nn/encoder.h"
#include "propagator/nn/frame_embedding.h"
#include "propagator/nn/last_layer.h"
#include "propagator/nn/mask_type.h"

namespace propagator::models {

using nn::MaskType;

enum class Inputs { kHonest, kPublished };
enum class Predicts { kField, kChange, kScaledChange };
enum class Scaling { kNone, kCase };

struct HeatFormerOptions : ForecasterOptions {
  MaskType mask = MaskType::kBlock;
  Inputs inputs = Inputs::kHonest;
  nn::EmbeddingForm embedding = nn::EmbeddingForm::kCollapsed;
  Predicts predicts = Predicts::kField;
  Scaling scaling = Scaling::kNone;
  int64_t visible = 5;
  int64_t width = 512;
  int64_t layers = 12;
  int64_t heads = 16;
  int64_t feed_forward = 256;

  void describe(config::Schema& schema) override;
  void validate(const FieldShape& shape) const override;
  bool honest() const override { return inputs == Inputs::kHonest; }
  bool autoregressive() const override { return mask == MaskType::kCausal; }
  std::shared_ptr<Forecaster> make(const FieldShape& shape) const override;
};

// The transformer of the heat-plate paper: each frame is a token,
//   x_t = embedding(frame_t) + time encoding_t + W_α α + b_α,
// then a pre-norm encoder, one more LayerNorm, and a projection to a frame.
//
// inputs: published. All T frames enter; a mask hides the later ones as keys.
//   But frame t still reaches output t along the residual stream: it leaks.
// inputs: honest, block. Frames ≥ visible never enter; their tokens are one
//   learned vector + time encoding + α.
// inputs: honest, causal. Token i carries frame i-1 (token 0 the learned
//   vector) and predicts frame i; in `predict` only the model's own frames are
//   fed back, with keys and values cached.
//
// predicts: field; or the change from the last frame the token may know; or
//   scaled_change, the change from the last visible frame in units of its root
//   mean square over the training cases, node by node. An autoregressive model
//   that adds up changes adds up their errors too; scaled ones do not add up.
// scaling: case. The heat equation commutes with T → a T + b, a > 0, so each
// case
//   is shifted and scaled by the mean and deviation of its last visible frame,
//   and the answer scaled back: what is left to learn has two dimensions less.
//
// Where a variance is asked for, a second projection beside the last one gives
// a raw number l of each node, and the deviation is unit · exp(v/2) with
//   v = v_min + softplus(l - v_min),
// so that it is at least 1e-5 units and a gradient always leads away from
// there. The unit is that of the output: the root mean square of the change, or
// the case's own, or 1.
class HeatFormer : public Forecaster, public nn::HasLastLayer {
 public:
  HeatFormer(const HeatFormerOptions& options, const FieldShape& shape);

  torch::Tensor forward(const torch::Tensor& frames,
                        const torch::Tensor& alpha) override;
  torch::Tensor predict(
      const torch::Tensor& first, const torch::Tensor& alpha,
      const std::function<void(int64_t)>& progress = {}) override;
  torch::Tensor predict_at(const torch::Tensor& first,
                           const torch::Tensor& alpha,
                           const std::vector<int64_t>& times) override;

  bool predicts_variance() const override { return shape_.variance; }
  FrameSpread spread(const torch::Tensor& frames,
                     const torch::Tensor& alpha) override;
  torch::Tensor draw(
      const torch::Tensor& first, const torch::Tensor& alpha,
      const FrameNoise& noise,
      const std::function<void(int64_t)>& progress = {}) override;

  void calibrate(const NextFrames& next) override;
  // Its weights are zero then and stay so, since their gradient is α's.
  void drop_alpha() override;
  bool uses_alpha() const override;

  Internals internals() const override;
  std::vector<std::string> last_layer() const override;
  double work_of(const std::vector<int64_t>& times) const override;
  int64_t visible() const override { return options_.visible; }
  bool autoregressive() const override { return options_.autoregressive(); }
  int64_t first_hidden(int64_t output) const override;

  // All T × T attention under an additive mask, or only what the mask leaves.
  void set_attention_work(nn::AttentionWork work) { work_ = work; }
  nn::AttentionBias mask() const;

  // The same function with the collapsed embedding.
  std::shared_ptr<HeatFormer> collapse() const;

 private:
  // What a case is measured in: its fields are shift + scale · scaled ones.
  // Both (B, 1, 1, 1); undefined without scaling.
  struct Units {
    torch::Tensor shift, scale;
    torch::Tensor scaled(const torch::Tensor& frames) const;
  };
  Units units_of(const torch::Tensor& frames) const;
  // Frames from what the network says of them.
  torch::Tensor answer(const torch::Tensor& output, const torch::Tensor& known,
                       const Units& units, const torch::Tensor& scale) const;

  torch::Tensor tokens(const torch::Tensor& frames, const Units& units);
  torch::Tensor add_context(const torch::Tensor& tokens, int64_t first,
                            const torch::Tensor& alpha);
  void expect_first_frames(const torch::Tensor& first,
                           const torch::Tensor& alpha) const;
  // The frames that changes are counted from: (B, T or 1, R, C).
  torch::Tensor known_frames(const torch::Tensor& frames) const;
  torch::Tensor project(const torch::Tensor& encoded);
  torch::Tensor deviation(const torch::Tensor& encoded, const Units& units,
                          const torch::Tensor& scale);
  // The first `count` frames, one after the other; with noise, drawn ones.
  torch::Tensor roll_out(const torch::Tensor& first, const torch::Tensor& alpha,
                         int64_t count, const FrameNoise& noise,
                         const std::function<void(int64_t)>& progress);

  HeatFormerOptions options_;
  FieldShape shape_;
  nn::AttentionWork work_ = nn::AttentionWork::kVisible;
  nn::FrameEmbedding embedding_;
  torch::nn::Linear alpha_embedding_;
  nn::Encoder encoder_;
  torch::nn::LayerNorm norm_;
  torch::nn::Linear output_;
  torch::nn::Linear variance_{nullptr};  // empty where none is predicted
  torch::Tensor time_encoding_;          // (T, C)
  torch::Tensor unknown_;       // (C), the token of a frame that is not given
  torch::Tensor change_scale_;  // (T, R, C), not trained; may be undefined
};

}  // namespace propagator::models

namespace propagator::config {

template <>
struct Names<models::Inputs> {
  using enum models::Inputs;
  static constexpr std::pair<models::Inputs, const char*> all[] = {
      {kHonest, "honest"}, {kPublished, "published"}};
};

template <>
struct Names<models::Predicts> {
  using enum models::Predicts;
  static constexpr std::pair<models::Predicts, const char*> all[] = {
      {kField, "field"}, {kChange, "change"}, {kScaledChange, "scaled_change"}};
};

template <>
struct Names<models::Scaling> {
  using enum models::Scaling;
  static constexpr std::pair<models::Scaling, const char*> all[] = {
      {kNone, "none"}, {kCase, "case"}};
};

}  // namespace propagator::config
