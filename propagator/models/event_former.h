#pragma once

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include "propagator/models/locator.h"
#include "propagator/nn/query_decoder.h"
#include "propagator/nn/set_encoder.h"

namespace propagator::models {

// How a hit's time becomes a vector of the token's width.
enum class TimeEncoding { kLinear, kSinusoidal, kNetwork };
// What of the encoded tokens the place is read from.
enum class EventSummary { kToken, kMean, kSum, kLast, kQuery };

struct EventFormerOptions : LocatorOptions {
  bool positions = false;
  TimeEncoding time = TimeEncoding::kLinear;
  double time_base = 10000;
  int64_t time_hidden = 32;
  EventSummary summary = EventSummary::kToken;
  int64_t decoder_layers = 1;
  int64_t width = 32;
  int64_t layers = 2;
  int64_t heads = 4;
  int64_t feed_forward = 64;
  double dropout = 0.1;

  void describe(config::Schema& schema) override;
  void validate(const DetectorShape& shape) const override;
  std::vector<config::UnusedOption> unused_options() const override;
  std::shared_ptr<Locator> make(const DetectorShape& shape) const override;
};

// The transformer of the detector lecture. A sensor s that was hit at t is a
// token of width C,
//   E_s + U(t) (+ W x_s + c with positions) (+ v log(1 + n) with charges n),
// s = 1 … S, E learned; times in ns and positions in m as they are. U is one of
//   linear       w t + b
//   sinusoidal   U_2n = sin(t / a^(2n/C)), U_2n+1 = cos(the same), a =
//   time_base network      W₂ gelu(w₁ t' + b₁) + b₂, t' in units of light
//   across the
//                detector.
// Sensors that were not hit are padding. A post-norm encoder, then a linear
// layer to the place in m, from a summary of the encoded tokens:
//   token   one more token, E_0, that the encoder fills (the lecture's)
//   mean, sum   over the hits
//   last    the token of the latest hit
//   query   what a decoder answers a learned query (nn::QueryDecoder).
// Without a hit the last four summaries are 0, or of all sensors (query).
//
// The lecture leaves the unit of time open; in ns the numbers reach 87, in s
// the network would see none.
//
// As the lecture has it, it has (S + 1) C + 2 C + 3 C + 3 parameters and those
// of the layers, and with positions 4 C more, with charges C.
class EventFormer : public Locator {
 public:
  EventFormer(const EventFormerOptions& options, const DetectorShape& shape);

  Located forward(const Hits& hits) override;
  // As the lecture's framework does: E normal, queries to values uniform on
  // Xavier's bound, biases of attention zero, the rest on ±1/√fan_in.
  void initialise(int64_t seed) override;

 private:
  bool has_token() const { return options_.summary == EventSummary::kToken; }
  // What a sensor's token has beside its time: (C), or (S, C) with positions;
  // undefined where that is nothing.
  torch::Tensor offset(const Hits& hits, torch::ScalarType type);
  torch::Tensor encode_time(const torch::Tensor& times);  // (B, S) → (B, S, C)
  // (B, S, C), behind the summary token if there is one.
  torch::Tensor tokens(const Hits& hits, torch::ScalarType type);
  // (B, C) of encoded sensors, zeros where not hit.
  torch::Tensor summarise(const Hits& hits, const nn::TokenSet& encoded);

  EventFormerOptions options_;
  DetectorShape shape_;
  torch::nn::Embedding embedding_;
  torch::nn::Linear time_{nullptr}, time_hidden_{nullptr}, position_{nullptr},
      charge_{nullptr};
  nn::SetEncoder encoder_;
  nn::QueryDecoder decoder_{nullptr};
  torch::nn::Linear output_;
};

}  // namespace propagator::models

namespace propagator::config {

template <>
struct Names<models::TimeEncoding> {
  using enum models::TimeEncoding;
  static constexpr std::pair<models::TimeEncoding, const char*> all[] = {
      {kLinear, "linear"}, {kSinusoidal, "sinusoidal"}, {kNetwork, "network"}};
};

template <>
struct Names<models::EventSummary> {
  using enum models::EventSummary;
  static constexpr std::pair<models::EventSummary, const char*> all[] = {
      {kToken, "token"},
      {kMean, "mean"},
      {kSum, "sum"},
      {kLast, "last"},
      {kQuery, "query"}};
};

}  // namespace propagator::config
