#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

namespace propagator::nn {

// y = x ⊙ m / (1 - p) in training, where each m is 0 with probability p (a
// multiple of 2⁻¹⁶) and 1 otherwise; y = x in evaluation.
//
// m is a function of a key and of the number of the draw alone (Philox), so
// that neither threads nor device change it, and a resumed training goes on to
// the same bits. Key and number are a parameter that is not trained: those are
// what a checkpoint holds.
class DropoutImpl : public torch::nn::Module {
 public:
  explicit DropoutImpl(double rate);

  torch::Tensor forward(const torch::Tensor& x);
  // The next draw of m / (1 - p) in the shape, or an undefined tensor where
  // `forward` changes nothing.
  torch::Tensor factors(torch::IntArrayRef shape,
                        const torch::TensorOptions& options);
  // Of a draw in the shape (…, width) the rows at `places`, (R) int64 → (R,
  // width), or an undefined tensor. The others cost nothing. On the CPU alone,
  // and of whole blocks: width is a multiple of 8.
  torch::Tensor factors_of_rows(const torch::Tensor& places, int64_t width,
                                torch::ScalarType type);
  // Begins again with draw 0 of that key.
  void set_key(int64_t key);
  // The next one has this number.
  void set_draws(int64_t draws);
  int64_t draws() const { return state_[1].item<int64_t>(); }

  // The state stays whole numbers whatever the type of the network.
  using torch::nn::Module::to;
  void to(torch::Device device, torch::Dtype dtype,
          bool non_blocking = false) override;
  void to(torch::Dtype dtype, bool non_blocking = false) override;

 private:
  bool changes_nothing() const { return !is_training() || threshold_ == 0; }

  uint32_t threshold_;   // of 2¹⁶
  torch::Tensor state_;  // (2) int64: key, number of draws
};
TORCH_MODULE(Dropout);

// The factors of one draw: number i of the shape, row-major, is 0 where 16 bits
// of Philox are below the threshold and 2¹⁶ / (2¹⁶ - threshold) elsewhere. By a
// loop on the CPU, and by tensor operations that read nothing back (so that a
// step on CUDA can be captured as a graph) anywhere.
torch::Tensor dropout_factors(const torch::Tensor& state, uint32_t threshold,
                              torch::IntArrayRef shape,
                              const torch::TensorOptions& options);
torch::Tensor dropout_factors_reference(const torch::Tensor& state,
                                        uint32_t threshold,
                                        torch::IntArrayRef shape,
                                        const torch::TensorOptions& options);

// Gives every dropout of `module` a key from the seed and its path.
void seed_dropouts(torch::nn::Module& module, int64_t seed);

}  // namespace propagator::nn
