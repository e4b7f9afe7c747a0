#include "propagator/bench/heat_products.h"

#include <ATen/record_function.h>

#include <set>

#include "propagator/data/split.h"
#include "propagator/run/experiment.h"
#include "propagator/train/step.h"
#include "testing.h"

namespace propagator::bench {
namespace {

constexpr const char* kProductsConfig = R"(
task: forecast
device: cpu
plate: {rows: 8, cols: 7, frames: 70}
data: {cases: 20}
model: {visible: 3, width: 16, layers: 2, heads: 2, feed_forward: 8}
train: {batch: 3}
)";

std::unique_ptr<run::Experiment> with(
    const std::vector<std::string>& overrides) {
  auto document = config::Document::from_text(kProductsConfig, "test.yaml");
  for (const auto& text : overrides) document.override_with(text);
  return std::make_unique<run::Experiment>(document);
}

// The operations of the matrix products that libtorch is asked for.
struct Recorder {
  static inline double operations = 0;
  static inline int depth = 0;  // a product may be made of others

  struct Context : at::ObserverContext {
    bool product;
    explicit Context(bool product) : product(product) {}
  };
  static std::unique_ptr<at::ObserverContext> begin(
      const at::RecordFunction& function) {
    static const std::set<std::string> two{"aten::mm", "aten::bmm"};
    static const std::set<std::string> three{"aten::addmm", "aten::addmm_",
                                             "aten::baddbmm", "aten::baddbmm_"};
    const std::string name = function.name();
    const bool plain = two.contains(name);
    const bool product = plain || three.contains(name);
    if (product && depth++ == 0) {
      const auto inputs = function.inputs();
      const auto left = inputs[plain ? 0 : 1].toTensor();
      const auto right = inputs[plain ? 1 : 2].toTensor();
      operations += 2.0 * static_cast<double>(left.numel() * right.size(-1));
    }
    return std::make_unique<Context>(product);
  }
  static void end(const at::RecordFunction&, at::ObserverContext* context) {
    if (static_cast<Context*>(context)->product) --depth;
  }
};

double operations_of_a_step(const run::Experiment& experiment) {
  const auto runtime = experiment.make_runtime();
  auto& task = experiment.task();
  task.prepare(0, runtime);
  const auto& o = experiment.train();
  train::Step step(task, experiment.make_model(runtime),
                   {o.batch, 1, 0, o.optimizer}, runtime);
  data::BatchSampler sampler(task.size(data::Split::kTrain), o.batch, 0);
  Recorder::operations = 0;
  const auto handle = at::addGlobalCallback(
      at::RecordFunctionCallback(Recorder::begin, Recorder::end)
          .needsInputs(true));
  step.run(sampler.batch(0), 1e-4);
  at::removeCallback(handle);
  return Recorder::operations;
}

TEST(BenchHeatProducts, AreThoseThatAStepComputes) {
  const std::vector<std::vector<std::string>> all{
      {},                     // queries and outputs folded
      {"model.visible=9"},    // not folded
      {"model.mask=causal"},  // two blocks of queries
      {"model.embedding=published"},
      {"model.inputs=published", "eval.protocol=published"},
      {"model.mask=causal", "model.inputs=published",
       "eval.protocol=published"}};
  for (const auto& overrides : all) {
    const auto experiment = with(overrides);
    const HeatSizes sizes(*experiment);
    // The embedding of α, forward and its weights' gradient.
    const double alpha = 4.0 * static_cast<double>(sizes.batch * sizes.width);
    EXPECT_EQ(forward_products(sizes).step_operations() + alpha,
              operations_of_a_step(*experiment))
        << (overrides.empty() ? "" : overrides[0]);
  }
}

TEST(BenchHeatProducts, PredictByHand) {
  const auto block = with({});
  EXPECT_EQ(predict_products(HeatSizes(*block)).forward_operations(),
            forward_products(HeatSizes(*block)).forward_operations());
  const auto causal = with({"model.mask=causal"});
  const double tokens = 3 * 70, width = 16, nodes = 56;
  // Four keys for the first four tokens, then 5, 6, … 70.
  const double keys = 3 * (4 * 4 + (5 + 70) * 66 / 2);
  const double layer =
      tokens * (4 * width * width + 2 * width * 8) + 2 * width * keys;
  EXPECT_EQ(predict_products(HeatSizes(*causal)).forward_operations(),
            2 * (3 * 69 * nodes * width + 2 * layer + 3 * 67 * nodes * width));
}

}  // namespace
}  // namespace propagator::bench
