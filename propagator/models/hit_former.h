#pragma once

#include <torch/nn/modules/linear.h>

#include "propagator/models/locator.h"
#include "propagator/nn/set_encoder.h"

namespace propagator::models {

struct HitFormerOptions : LocatorOptions {
  bool unhit = true;
  int64_t width = 64;
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t feed_forward = 128;
  int64_t frequencies = 4;

  void describe(config::Schema& schema) override;
  void validate(const DetectorShape& shape) const override;
  bool has_uncertainty() const override { return true; }
  bool reads_back() const override { return !unhit; }
  std::shared_ptr<Locator> make(const DetectorShape& shape) const override;
};

// A transformer over hits that knows sensors by their places alone: it takes
// any set of them, in any order. With lengths in units of the detector's size
// and times in that of light across it, a sensor's token is
//   y + W₂ gelu(y) + b₂,  y = W_t f(h, t) + W_p φ(p) + b,
// where φ(p) = (p, p², sin and cos of π 2ᵏ p, k < frequencies), f = (h, h φ(t -
// t₀)), h says whether it was hit and t₀ is the time of the first hit. If the
// event's time is known, f has h φ(t) too and the summary token, a learned
// vector, takes W φ(t₀); otherwise a shift of all times changes nothing. If
// hits come with charges n, f has h log(1 + n) and h / √(1 + n) too, since
// light falls with the square of the distance.
//
// unhit: yes. Sensors that were not hit say something too and are tokens as
//   well; no: only hits are, as many as the batch's fullest event has.
//
// A pre-norm encoder with gelu, then 9 numbers from the summary token: the
// place μ, a diagonal d = softplus + 10⁻⁵, and the rows below it in units of
// d: L = diag(d) (1 + lower triangle), both times the detector's size.
class HitFormer : public Locator {
 public:
  HitFormer(const HitFormerOptions& options, const DetectorShape& shape);

  Located forward(const Hits& hits) override;

 private:
  // What becomes a token: all sensors, or the hits of each event first.
  struct Chosen {
    torch::Tensor index;    // (B, K) of the sensors, or undefined: all of them
    torch::Tensor times;    // (B, K) in units, from the first hit
    torch::Tensor hit;      // (B, K)
    torch::Tensor charges;  // (B, K), or undefined
  };
  Chosen choose(const Hits& hits, const torch::Tensor& times) const;
  // φ: (…) → (…, 2 + 2 frequencies). Of the squares, places are straight
  // functions: |x - s|² = (c t)², one less another.
  torch::Tensor features(const torch::Tensor& x) const;
  torch::Tensor sensor_tokens(const Hits& hits, const Chosen& chosen,
                              const torch::Tensor& first);
  // Shows the weights on tokens (B, H, 1 + K) as those on sensors.
  void show(int64_t layer, const torch::Tensor& weights, const Chosen& chosen,
            int64_t sensors) const;
  Located answer(const torch::Tensor& summary);

  HitFormerOptions options_;
  DetectorShape shape_;
  torch::nn::Linear time_, position_, token_;
  torch::nn::Linear first_hit_{nullptr};
  nn::SetEncoder encoder_;
  torch::nn::Linear output_;
  torch::Tensor summary_;  // (C)
};

}  // namespace propagator::models
