#pragma once

#include "propagator/models/field_net.h"
#include "propagator/nn/wavelet_block.h"

namespace propagator::models {

struct PinnsFormerOptions : FieldNetOptions {
  int64_t width = 32;
  int64_t heads = 2;
  int64_t blocks = 1;
  int64_t feed_forward = 256;
  int64_t hidden = 512;

  void describe(config::Schema& schema) override;
  void validate(const FieldDomain& domain) const override;
  bool windowed() const override { return true; }
  std::shared_ptr<FieldNet> make(const FieldDomain& domain) const override;
};

// PINNsFormer: the tokens of a window through an encoder; a decoder whose
// queries are the same embedded tokens and whose keys and values are the
// encoder's; a head of three layers. Wavelet everywhere in place of norms.
class PinnsFormer : public FieldNet {
 public:
  PinnsFormer(const PinnsFormerOptions& options, const FieldDomain& domain);
  autodiff::Jet forward(const autodiff::Jet& points) override;

 private:
  torch::nn::Linear embedding_;
  nn::WaveletStack encoder_, decoder_;
  nn::WaveletMlp head_;
};

}  // namespace propagator::models
