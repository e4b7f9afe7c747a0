#pragma once

#include <torch/nn/module.h>

#include <string>

namespace propagator::nn {

// Parts that a fine-tuning adds to a model and trains while the rest is frozen.
// At first they leave every answer as it was.
//
// A layer with a place for a bottleneck adapter (adapter.h) behind it.
class TakesAdapter {
 public:
  virtual ~TakesAdapter() = default;
  virtual void add_adapter(int64_t width) = 0;
};

// An attention that can see learned keys and values (learned_prefix.h).
class TakesPrefix {
 public:
  virtual ~TakesPrefix() = default;
  virtual void add_prefix(int64_t tokens) = 0;
};

// To every place of a model, in the type and on the device of its parameters.
// UsageError if it has none.
void add_adapters(torch::nn::Module& model, int64_t width);
void add_prefixes(torch::nn::Module& model, int64_t tokens);

// Gives all added parts their first weights; each has a random stream of its
// own.
void reset_tuned_parts(torch::nn::Module& model, int64_t seed);

// Whether a parameter of that name belongs to an added part.
bool is_tuned_part(const std::string& parameter);

}  // namespace propagator::nn
