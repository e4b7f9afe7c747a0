#include "propagator/train/trainable.h"

#include "propagator/core/error.h"

namespace propagator::train {

LeastSquares Trainable::least_squares(torch::nn::Module&,
                                      const torch::Tensor*) {
  throw ConfigError(
      "optimizer.kind",
      "levenberg_marquardt needs a loss that is a sum of squares of residuals "
      "at single points, as that of solve is",
      "set optimizer.kind=adamw or lbfgs");
}

}  // namespace propagator::train
