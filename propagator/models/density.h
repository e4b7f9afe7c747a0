#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "propagator/core/config.h"
#include "propagator/core/kinds.h"
#include "propagator/core/random.h"
#include "propagator/nn/rational_spline.h"
#include "propagator/nn/support.h"

namespace propagator::models {

// D variables whose distribution is learned, given C others (none: 0).
struct DensityShape {
  int64_t variables = 2, given = 0;
  std::vector<std::string> names = {};  // of the variables, where they have any
  // Whether the first D columns of what is given are a first estimate of x, on
  // the line that its support is taken to: then the distribution of x there
  // minus that is learned, with all that is given.
  bool centred = false;
  nn::Supports supports = {};
};

// A distribution p(x | given): x (N, D), given (N, C). Variables with a support
// of their own are taken to the line, and both are scaled to mean 0 and
// variance 1 of the training data first; what a model sees of them is scaled,
// what it answers is not.
class Density : public torch::nn::Module {
 public:
  explicit Density(const DensityShape& shape);

  // (N), in nats, -inf where x cannot be. Differentiable by the parameters.
  torch::Tensor log_prob(const torch::Tensor& x, const torch::Tensor& given);
  // What training descends on, (N): minus the log likelihood unless a model has
  // its own. `noise` (N, K) is uniform on [0, 1), other numbers at
  // each step.
  virtual torch::Tensor loss(const torch::Tensor& x, const torch::Tensor& given,
                             const torch::Tensor& /*noise*/) {
    return -log_prob(x, given);
  }
  virtual std::string loss_name() const { return "minus log likelihood"; }
  // One x for each row of `given` (N, C); the same for the same stream.
  torch::Tensor sample(const torch::Tensor& given, const RandomStream& stream);

  // Takes the scales from the training data, before training. A variable that
  // does not vary keeps the scale 1.
  void calibrate(const torch::Tensor& x, const torch::Tensor& given);
  // Sets the weights that training begins with; by default as nn/init.h does.
  virtual void initialise(int64_t seed);

  const DensityShape& shape() const { return shape_; }

 protected:
  virtual torch::Tensor scaled_log_prob(const torch::Tensor& x,
                                        const torch::Tensor& given) = 0;
  virtual torch::Tensor scaled_sample(const torch::Tensor& given,
                                      const RandomStream& stream) = 0;

  // UsageError if they do not have the shape's columns, or not as many rows.
  void expect(const torch::Tensor& x, const torch::Tensor& given) const;
  torch::Tensor scaled(const torch::Tensor& x,
                       const torch::Tensor& given) const {
    return scaled_line(shape_.supports.to_line(x).value, given);
  }
  torch::Tensor scaled_given(const torch::Tensor& given) const {
    return (given - given_shift_) / given_scale_;
  }

 private:
  torch::Tensor scaled_line(const torch::Tensor& z,
                            const torch::Tensor& given) const {
    return (from_centre(z, given) - shift_) / scale_;
  }
  // What is learned of z: the difference from the first estimate, if there is
  // one.
  torch::Tensor from_centre(const torch::Tensor& z,
                            const torch::Tensor& given) const;

  DensityShape shape_;
  torch::Tensor shift_, scale_;              // (D)
  torch::Tensor given_shift_, given_scale_;  // (C)
};

// A density by an invertible map to normal numbers:
//   p(x) = N(u(x)) |∂u/∂x|.
class NormalFlow : public Density {
 public:
  using Density::Density;

  // To the normal numbers, with the log of the determinant (N), and back, of
  // scaled data.
  virtual nn::Mapped to_normal(const torch::Tensor& x,
                               const torch::Tensor& given) = 0;
  virtual torch::Tensor from_normal(const torch::Tensor& u,
                                    const torch::Tensor& given) = 0;

 protected:
  torch::Tensor scaled_log_prob(const torch::Tensor& x,
                                const torch::Tensor& given) override;
  torch::Tensor scaled_sample(const torch::Tensor& given,
                              const RandomStream& stream) override;
};

// The density that a task's module is.
inline Density& as_density(torch::nn::Module& model) {
  return dynamic_cast<Density&>(model);
}

// Of normal numbers, summed over the last dimension.
torch::Tensor normal_log_prob(const torch::Tensor& u);

// A kind of density: its options, which also make it.
class DensityOptions {
 public:
  virtual ~DensityOptions() = default;
  virtual void describe(config::Schema& schema) = 0;
  // ConfigError if the fields contradict one another or the variables.
  virtual void validate(const DensityShape&) const {}
  // K, how many random numbers of each row the loss takes.
  virtual int64_t noise_numbers(const DensityShape&) const { return 0; }
  virtual std::shared_ptr<Density> make(const DensityShape& shape) const = 0;
};

// The densities by name, as `model.name` in a configuration.
const Kinds<DensityOptions>& densities();

}  // namespace propagator::models
