#pragma once

#include "propagator/models/field_net.h"
#include "propagator/nn/wavelet_block.h"

namespace propagator::models {

// The variables that relative positions are taken along.
enum class PositionAxes { kSpace, kAll };
// What ALiBi's distances are relative to, along each axis.
enum class AlibiScale { kDomain, kBatch };
// What tokens carry beside their coordinates.
enum class TokenFeatures { kFourier, kUnit };

struct SpFormerOptions : FieldNetOptions {
  int64_t width = 32;
  int64_t heads = 2;
  int64_t blocks = 1;
  int64_t feed_forward = 256;
  int64_t hidden = 512;
  nn::RelativePosition position = nn::RelativePosition::kNone;
  PositionAxes axes = PositionAxes::kAll;
  AlibiScale alibi_scale = AlibiScale::kDomain;
  TokenFeatures features = TokenFeatures::kFourier;
  int64_t fourier = 64;
  double fourier_scale = 1;
  double fourier_time = 0;  // 0: as along the others

  void describe(config::Schema& schema) override;
  void validate(const FieldDomain& domain) const override;
  bool windowed() const override { return true; }
  std::shared_ptr<FieldNet> make(const FieldDomain& domain) const override;
};

// S-Pformer: PINNsFormer without its encoder. A token is
//   W x + W' features(x),
// where the features are cos and sin of 2π B p, B fixed random frequencies,
// or p itself, and p is the point on axes scaled to [0, 1].
//
// position: rope or alibi put relative positions into the attention. A window
// follows one point through time, so its tokens differ in time alone: axes:
// space, as in the S-Pformer paper, then changes no score at all; axes: all
// does. With alibi_scale: batch, as the paper has it too, an answer depends on
// which points are asked together.
class SpFormer : public FieldNet {
 public:
  SpFormer(const SpFormerOptions& options, const FieldDomain& domain);
  autodiff::Jet forward(const autodiff::Jet& points) override;
  void initialise(int64_t seed) override;

 private:
  SpFormerOptions options_;
  FieldDomain domain_;
  torch::nn::Linear embedding_, feature_embedding_;
  nn::WaveletStack decoder_;
  nn::WaveletMlp head_;
  torch::Tensor low_, span_;   // (D)
  torch::Tensor frequencies_;  // (fourier, D), not trained
};

}  // namespace propagator::models

namespace propagator::config {

template <>
struct Names<nn::RelativePosition> {
  using enum nn::RelativePosition;
  static constexpr std::pair<nn::RelativePosition, const char*> all[] = {
      {kNone, "none"}, {kRope, "rope"}, {kAlibi, "alibi"}};
};

template <>
struct Names<models::PositionAxes> {
  using enum models::PositionAxes;
  static constexpr std::pair<models::PositionAxes, const char*> all[] = {
      {kSpace, "space"}, {kAll, "all"}};
};

template <>
struct Names<models::AlibiScale> {
  using enum models::AlibiScale;
  static constexpr std::pair<models::AlibiScale, const char*> all[] = {
      {kDomain, "domain"}, {kBatch, "batch"}};
};

template <>
struct Names<models::TokenFeatures> {
  using enum models::TokenFeatures;
  static constexpr std::pair<models::TokenFeatures, const char*> all[] = {
      {kFourier, "fourier"}, {kUnit, "unit"}};
};

}  // namespace propagator::config
