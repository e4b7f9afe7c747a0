#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <vector>

#include "propagator/nn/dropout.h"

namespace propagator::train {

// Numbers for the dropouts of a model whose loss is computed in slices: slice n
// of an evaluation has draws of its own, whoever computes it, and whatever that
// rank has computed before.
class SliceDraws {
 public:
  SliceDraws(torch::nn::Module& module, int64_t slices);

  void begin_evaluation();
  void begin_slice(int64_t slice);
  void end_evaluation();

 private:
  void go_to(int64_t slice);

  int64_t slices_;
  std::vector<nn::DropoutImpl*> dropouts_;
  std::vector<int64_t> first_;  // draw of this evaluation, of each
};

}  // namespace propagator::train
