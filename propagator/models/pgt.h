#pragma once

#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <functional>
#include <optional>

#include "propagator/models/field_net.h"
#include "propagator/nn/adapter.h"
#include "propagator/nn/attention.h"
#include "propagator/nn/data_shaped.h"
#include "propagator/nn/film.h"
#include "propagator/nn/siren.h"
#include "propagator/nn/unit_axes.h"
#include "propagator/pde/greens/green_kernel.h"

namespace propagator::models {

// How fields come out of a point and what the sensors say there.
//   film_siren  layers of sines of the point, modulated by the condition
//   siren       layers of sines of the point with the condition beside it
//   film_mlp    layers with tanh, modulated
//   mlp         layers with tanh of the point with the condition beside it
enum class PgtDecoder { kFilmSiren, kSiren, kFilmMlp, kMlp };

struct PgtOptions : FieldNetOptions {
  int64_t width = 64;
  int64_t heads = 4;
  int64_t layers = 2;
  int64_t feed_forward = 128;
  PgtDecoder decoder = PgtDecoder::kFilmSiren;
  int64_t decoder_width = 64;
  int64_t decoder_layers = 3;
  double first_w0 = 5;
  double hidden_w0 = 5;
  pde::GreenOptions green;
  bool learn_green = false;

  void describe(config::Schema& schema) override;
  void validate(const FieldDomain& domain) const override;
  bool windowed() const override { return false; }
  bool needs_readings() const override { return true; }
  std::shared_ptr<FieldNet> make(const FieldDomain& domain) const override;
};

struct PgtBlockOptions {
  int64_t width = 64, heads = 4, feed_forward = 128;
};

// C + Attention(LN C) + W₂ gelu(W₁ LN C + b₁) + b₂, both of the same C,
// (1, T, W) → (1, T, W).
class PgtBlockImpl : public torch::nn::Module, public nn::TakesAdapter {
 public:
  explicit PgtBlockImpl(const PgtBlockOptions& options);
  torch::Tensor forward(const torch::Tensor& tokens,
                        const nn::AttentionBias& bias);
  void add_adapter(int64_t width) override;

 private:
  torch::nn::LayerNorm norm_;
  nn::MultiHeadAttention attention_;
  torch::nn::Linear linear1_, linear2_;
  nn::Adapter adapter_{nullptr};
};
TORCH_MODULE(PgtBlock);

// The physics-guided transformer of the PGT paper, its equations 3 to 14. M
// sensors become tokens,
//   c_i = W_u u_i + W_k known_i + W_p p_i + b,
// with p on axes scaled to [-1, 1], readings u in units of their spread, 0
// where there is none (known); a learned global token stands in front. Blocks
// attend with the logarithm of a Green's function of the tokens' places as a
// bias. A point asks them by cross-attention of φ(p), an MLP with tanh, and the
// answer g, beside the global token c, is the condition [g, c] of the decoder:
// with FiLM each of its layers is
//   h ← sin(w0 ω ⊙ (γ ⊙ (W h + b) + β)),   [γ, β, ω] = H [g, c].
// Derivatives go through decoder, FiLM and cross-attention as jets; tokens do
// not move with the points.
class Pgt : public FieldNet, public nn::DataShaped {
 public:
  Pgt(const PgtOptions& options, const FieldDomain& domain);

  autodiff::Jet forward(const autodiff::Jet& points) override;
  void initialise(int64_t seed) override;
  void observe(const autodiff::Observations& read) override;
  std::shared_ptr<void> hold() override;
  void take_shapes(const std::map<std::string, torch::Tensor>& tensors,
                   const std::string& prefix) override;

  // Multiplications and additions of its matrix products, attention included,
  // forward: of the tokens, and for one row of a jet of one point.
  struct Products {
    double tokens, row;
  };
  Products products() const;

  // Shows the weights (H, N, M) with which N points attend to the M sensors, of
  // every forward, to `observer`; an empty one ends it. Meanwhile every forward
  // encodes the sensors, whatever is held.
  using Observer = std::function<void(const torch::Tensor& weights)>;
  void watch(Observer observer) { observer_ = std::move(observer); }

 private:
  void make_decoder();
  struct Encoded {
    torch::Tensor global;        // (W)
    torch::Tensor keys, values;  // (M, W)
  };
  Encoded encode();
  // What is known of the Green's function: lengths left at 0 in the options
  // come from the sensors.
  nn::AttentionBias bias();
  // Of the Green's function at the sensors, made again on another device.
  const std::shared_ptr<const kernels::GreenPlan>& plan(
      const nn::AttentionBias& bias);
  // Cross-attention of φ (M; N, W) to the tokens.
  autodiff::Jet ask(const autodiff::Jet& phi, const Encoded& tokens);
  autodiff::Jet decode(const autodiff::Jet& points,
                       const autodiff::Jet& condition);
  bool has_film() const;
  bool has_sines() const;

  PgtOptions options_;
  FieldDomain domain_;
  nn::UnitAxes axes_;
  torch::nn::Linear reading_embedding_, known_embedding_, place_embedding_;
  torch::Tensor global_token_;  // (1, W)
  std::vector<PgtBlock> blocks_;
  torch::nn::LayerNorm norm_;
  torch::nn::Linear query_in_, query_out_;  // φ
  torch::nn::Linear query_, key_, value_, output_;
  std::vector<nn::Film> films_;
  nn::Siren siren_ = nullptr;
  std::vector<torch::nn::Linear> dense_;  // of a decoder with tanh
  torch::Tensor green_parameters_;
  torch::Tensor places_, readings_, known_;      // (M, D), (M, F), (M, F)
  std::optional<kernels::GreenFunction> green_;  // of the readings, once
  std::shared_ptr<const kernels::GreenPlan> plan_;
  std::optional<Encoded> held_;
  Observer observer_;
};

}  // namespace propagator::models

namespace propagator::config {

template <>
struct Names<models::PgtDecoder> {
  using enum models::PgtDecoder;
  static constexpr std::pair<models::PgtDecoder, const char*> all[] = {
      {kFilmSiren, "film_siren"},
      {kSiren, "siren"},
      {kFilmMlp, "film_mlp"},
      {kMlp, "mlp"}};
};

}  // namespace propagator::config
