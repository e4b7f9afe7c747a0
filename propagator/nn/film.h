#pragma once

#include <torch/nn/modules/linear.h>

#include "propagator/autodiff/jet.h"

namespace propagator::nn {

// What a condition does to F features: a jet (M; …, 2F) of γ and β beside each
// other, or (M; …, 3F) with a frequency ω after them, that moves with the
// features or is a constant; shapes broadcast.
class Modulation {
 public:
  Modulation() = default;
  Modulation(autodiff::Jet all, int64_t features);

  const autodiff::Jet& all() const { return all_; }
  autodiff::Jet gamma() const { return part(0); }
  autodiff::Jet beta() const { return part(1); }
  bool has_frequency() const;
  autodiff::Jet omega() const { return part(2); }

 private:
  autodiff::Jet part(int64_t n) const;

  autodiff::Jet all_;
  int64_t features_ = 0;
};

// γ ⊙ x + β; with a frequency, ω ⊙ (γ ⊙ x + β).
autodiff::Jet modulate(const autodiff::Jet& x, const Modulation& by);
// sin(w0 modulate(x, by)), in one pass over the rows where a kernel has it.
autodiff::Jet modulated_sine(const autodiff::Jet& x, const Modulation& by,
                             double w0);

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
