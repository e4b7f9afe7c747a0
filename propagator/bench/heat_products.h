#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "propagator/bench/timing.h"
#include "propagator/run/experiment.h"

namespace propagator::bench {

// `count` matrix products of the same shape, (rows × inner) · (inner × cols).
struct Product {
  int64_t count, rows, inner, cols;

  double operations() const;  // multiplications and additions
};

// The sizes that decide the work of a heat_former.
struct HeatSizes {
  int64_t batch, frames, rows, cols, nodes;
  int64_t visible, width, layers, heads, feed_forward;
  bool causal, honest;

  // Of the causal mask: see HeatFormer::mask.
  int64_t prefix() const { return honest ? visible + 1 : visible; }
  bool sees_itself() const { return honest; }
  // The keys that the queries before `end` see at most.
  int64_t keys_seen(int64_t end) const {
    return std::max(prefix(), sees_itself() ? end : end - 1);
  }

  // UsageError if the experiment has another model.
  explicit HeatSizes(const run::Experiment& experiment);
};

// The matrix products of a heat_former in the form we compute them; α's
// embedding, a single column, is left out.
struct HeatProducts {
  Product embedding;
  std::vector<Product> layer;  // of each layer
  int64_t layers;
  Product output;

  double forward_operations() const;
  // Backward is two products for each of forward, one for the embedding, whose
  // frames need no gradient.
  double step_operations() const;
};

// All frames at once.
HeatProducts forward_products(const HeatSizes& sizes);
// `predict`: a causal model takes one token after the other, with a cache.
HeatProducts predict_products(const HeatSizes& sizes);

// Milliseconds of a step's matrix products alone, forward and backward, one
// after the other on buffers that are there already, the same for every layer;
// on CUDA as one graph.
double measure_floor(const HeatProducts& products, const Runtime& runtime,
                     const TimingPlan& plan);

}  // namespace propagator::bench
