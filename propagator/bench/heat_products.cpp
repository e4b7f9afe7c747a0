#include "propagator/bench/heat_products.h"

#include <torch/utils.h>

#include <algorithm>

#include "propagator/core/device_graph.h"
#include "propagator/core/error.h"
#include "propagator/run/experiment.h"

namespace propagator::bench {
namespace {

// As in kernels/causal_attention.cpp; the CUDA kernel's blocks are as large.
constexpr int64_t kQueries = 64;

std::string text_of(const run::Experiment& experiment, const char* key) {
  const auto* field = experiment.schema().find(key);
  if (field == nullptr) {
    throw UsageError(fmt::format("[bench] expected a task with {}", key),
                     "benchmarks are of forecast with the model heat_former");
  }
  return field->get();
}

int64_t number_of(const run::Experiment& experiment, const char* key) {
  return std::stoll(text_of(experiment, key));
}

// Frames that enter the network.
int64_t embedded_frames(const HeatSizes& s) {
  if (!s.honest) return s.frames;
  return s.causal ? s.frames - 1 : s.visible;
}

void add_feed_forward(const HeatSizes& s, std::vector<Product>& layer) {
  const int64_t tokens = s.batch * s.frames;
  layer.push_back({1, tokens, s.width, s.feed_forward});
  layer.push_back({1, tokens, s.feed_forward, s.width});
}

// Queries, keys and values together, and the output, for every token.
void add_projections(const HeatSizes& s, std::vector<Product>& layer) {
  const int64_t tokens = s.batch * s.frames;
  layer.push_back({1, tokens, s.width, 3 * s.width});
  layer.push_back({1, tokens, s.width, s.width});
}

// Scores and mixed values of `queries` tokens that see `keys`.
void add_attention(const HeatSizes& s, int64_t queries, int64_t keys,
                   std::vector<Product>& layer) {
  const int64_t count = s.batch * s.heads, depth = s.width / s.heads;
  layer.push_back({count, queries, depth, keys});
  layer.push_back({count, queries, keys, depth});
}

void add_block_attention(const HeatSizes& s, std::vector<Product>& layer) {
  const int64_t prefix = s.batch * s.visible, width = s.width;
  const int64_t folded = s.heads * s.visible;
  layer.push_back({1, prefix, width, 2 * width});  // keys and values
  if (folded < width) {
    layer.insert(layer.end(), 2, {s.heads, prefix, width / s.heads, width});
    layer.push_back({s.batch, s.frames, width, folded});
    layer.push_back({s.batch, s.frames, folded, width});
  } else {
    layer.insert(layer.end(), 2, {1, s.batch * s.frames, width, width});
    add_attention(s, s.frames, s.visible, layer);
  }
}

void add_causal_attention(const HeatSizes& s, std::vector<Product>& layer) {
  add_projections(s, layer);
  for (int64_t begin = 0; begin < s.frames; begin += kQueries) {
    const int64_t end = std::min(begin + kQueries, s.frames);
    add_attention(s, end - begin, s.keys_seen(end), layer);
  }
}

// out = a · b, each (count, rows, cols)
void multiply(torch::Tensor& out, const torch::Tensor& a,
              const torch::Tensor& b) {
  if (out.size(0) == 1) {
    auto only = out[0];
    torch::mm_out(only, a[0], b[0]);
  } else {
    torch::bmm_out(out, a, b);
  }
}

// One product y = x wᵀ with its gradients, on buffers of its own.
class TimedProduct {
 public:
  TimedProduct(const Product& p, const torch::TensorOptions& options)
      : x_(torch::rand({p.count, p.rows, p.inner}, options)),
        w_(torch::rand({p.count, p.cols, p.inner}, options)),
        y_(torch::empty({p.count, p.rows, p.cols}, options)),
        dx_(torch::empty_like(x_)),
        dw_(torch::empty_like(w_)) {}

  void forward() { multiply(y_, x_, w_.transpose(1, 2)); }
  void weight_gradient() { multiply(dw_, y_.transpose(1, 2), x_); }
  void input_gradient() { multiply(dx_, y_, w_); }

 private:
  torch::Tensor x_, w_, y_, dx_, dw_;
};

// The matrix products of a step, back to back. All layers work on the same
// buffers.
class StepProducts {
 public:
  StepProducts(const HeatProducts& products,
               const torch::TensorOptions& options)
      : embedding_(products.embedding, options),
        layers_(products.layers),
        output_(products.output, options) {
    for (const auto& product : products.layer)
      layer_.emplace_back(product, options);
  }

  void run() {
    embedding_.forward();
    for (int64_t n = 0; n < layers_; ++n) {
      for (auto& product : layer_) product.forward();
    }
    output_.forward();
    output_.weight_gradient();
    output_.input_gradient();
    for (int64_t n = 0; n < layers_; ++n) {
      for (size_t k = layer_.size(); k-- > 0;) {
        layer_[k].weight_gradient();
        layer_[k].input_gradient();
      }
    }
    embedding_.weight_gradient();
  }

 private:
  TimedProduct embedding_;
  std::vector<TimedProduct> layer_;
  int64_t layers_;
  TimedProduct output_;
};

}  // namespace

double Product::operations() const {
  return 2.0 * static_cast<double>(count * rows) *
         static_cast<double>(inner * cols);
}

HeatSizes::HeatSizes(const run::Experiment& experiment)
    : batch(experiment.train().batch),
      frames(number_of(experiment, "plate.frames")),
      rows(number_of(experiment, "plate.rows")),
      cols(number_of(experiment, "plate.cols")),
      nodes(rows * cols),
      visible(number_of(experiment, "model.visible")),
      width(number_of(experiment, "model.width")),
      layers(number_of(experiment, "model.layers")),
      heads(number_of(experiment, "model.heads")),
      feed_forward(number_of(experiment, "model.feed_forward")),
      causal(text_of(experiment, "model.mask") == "causal"),
      honest(text_of(experiment, "model.inputs") == "honest") {}

double HeatProducts::forward_operations() const {
  double sum = 0;
  for (const auto& product : layer) sum += product.operations();
  return embedding.operations() + static_cast<double>(layers) * sum +
         output.operations();
}

double HeatProducts::step_operations() const {
  return 3 * forward_operations() - embedding.operations();
}

HeatProducts forward_products(const HeatSizes& s) {
  std::vector<Product> layer;
  if (s.causal) {
    add_causal_attention(s, layer);
  } else {
    add_block_attention(s, layer);
  }
  add_feed_forward(s, layer);
  return {{1, s.batch * embedded_frames(s), s.nodes, s.width},
          layer,
          s.layers,
          {1, s.batch * s.frames, s.width, s.nodes}};
}

HeatProducts predict_products(const HeatSizes& s) {
  auto products = forward_products(s);
  if (!s.causal) return products;
  products.layer.clear();
  add_projections(s, products.layer);
  // The visible frames and one more token together, then one by one.
  add_attention(s, s.visible + 1, s.visible + 1, products.layer);
  for (int64_t keys = s.visible + 2; keys <= s.frames; ++keys) {
    add_attention(s, 1, keys, products.layer);
  }
  add_feed_forward(s, products.layer);
  products.output.rows = s.batch * (s.frames - s.visible);
  return products;
}

double measure_floor(const HeatProducts& products, const Runtime& runtime,
                     const TimingPlan& plan) {
  const torch::NoGradGuard no_grad;
  StepProducts step(products, product_options(runtime));
  std::function<void()> work = [&] { step.run(); };
  std::unique_ptr<DeviceGraph> graph;
  if (DeviceGraph::possible(runtime)) {
    graph = std::make_unique<DeviceGraph>(work);
    work = [&] { graph->run(); };
  }
  return measure("heat-step, products alone", runtime, plan, work).median;
}

}  // namespace propagator::bench
