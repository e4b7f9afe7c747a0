#pragma once

#include <torch/nn/module.h>

namespace propagator::train {

// What a task that draws its training cases can do besides.
class Redrawable {
 public:
  virtual ~Redrawable() = default;

  // Called after `begin_step`, where the step before found nothing lower:
  // whether the cases are now others. They are drawn if they were not.
  virtual bool redraw(torch::nn::Module& model, int64_t step) = 0;
};

}  // namespace propagator::train
