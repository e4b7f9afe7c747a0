#pragma once

#include <torch/nn/modules/linear.h>

#include <optional>

#include "propagator/autodiff/jet.h"

namespace propagator::nn {

// What a condition does to F features, jets (M; …, F) that move with the
// features or are constants; their shapes broadcast.
struct Modulation {
  autodiff::Jet gamma, beta;
  std::optional<autodiff::Jet> omega = {};
};

// γ ⊙ x + β; with a frequency, ω ⊙ (γ ⊙ x + β).
autodiff::Jet modulate(const autodiff::Jet& x, const Modulation& by);

struct FilmOptions {
  int64_t condition = 1;   // length of the conditioning vector
  int64_t features = 1;    // of the layer that is modulated
  bool frequency = false;  // whether there is ω, as in the PGT paper
};

// Feature-wise linear modulation by a conditioning vector c:
//   [γ, β, ω] = c Wᵀ + b,   y = ω ⊙ (γ ⊙ x + β),
// with W = 0 and b = [1, 0, 1] at the start, where it changes nothing.
// Jets x (M; …, F) and c (M; …, C), of one layout or constants.
class FilmImpl : public torch::nn::Module {
 public:
  explicit FilmImpl(const FilmOptions& options);

  autodiff::Jet forward(const autodiff::Jet& x, const autodiff::Jet& condition);
  Modulation modulation(const autodiff::Jet& condition);
  // Back to the start; a network whose own initialisation draws every matrix
  // calls it afterwards.
  void reset();

 private:
  FilmOptions options_;
  torch::nn::Linear linear_;  // C → 2 F, or 3 F
};
TORCH_MODULE(Film);

}  // namespace propagator::nn
