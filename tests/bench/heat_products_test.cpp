#include "propagator/bench/heat_products.h"

#include "propagator/bench/field_bench.h"
#include "propagator/bench/product_counter.h"
#include "propagator/core/error.h"
#include "propagator/data/split.h"
#include "propagator/kernels/mode_product.h"
#include "propagator/kernels/set/set_attention.h"
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

double operations_of_a_step(const run::Experiment& experiment) {
  const auto runtime = experiment.make_runtime();
  auto& task = experiment.task();
  task.prepare(0, runtime);
  const auto& o = experiment.train();
  train::Step step(task, experiment.make_model(runtime),
                   {o.batch, 1, 0, o.optimizer}, runtime);
  data::BatchSampler sampler(task.size(data::Split::kTrain), o.batch, 0);
  const auto batch = sampler.batch(0);
  return operations_of([&] { step.run(batch, 1e-4); });
}

// What the CPU's kernel, which counts what queries see, saves of the blocks of
// 64 queries in which a floor has causal attention.
double saved_by_the_kernel(const HeatSizes& s) {
  int64_t pairs = 0;
  for (int64_t i = 0; i < s.frames; ++i) {
    const int64_t end = std::min(i / 64 * 64 + 64, s.frames);
    pairs += s.keys_seen(end) - s.keys_seen(i + 1);
  }
  return 3 * 4 * static_cast<double>(pairs * s.layers * s.batch * s.width);
}

TEST(BenchHeatProducts, AreThoseThatAStepComputes) {
  const std::vector<std::vector<std::string>> all{
      {},                     // queries and outputs folded
      {"model.visible=9"},    // not folded
      {"model.mask=causal"},  // in a kernel
      {"model.embedding=published"},
      {"model.inputs=published", "eval.protocol=published"},
      {"model.mask=causal", "model.inputs=published",
       "eval.protocol=published"}};
  for (const auto& overrides : all) {
    const auto experiment = with(overrides);
    const HeatSizes sizes(*experiment);
    // The embedding of α, forward and its weights' gradient.
    const double alpha = 4.0 * static_cast<double>(sizes.batch * sizes.width);
    const double saved = sizes.causal ? saved_by_the_kernel(sizes) : 0;
    EXPECT_EQ(forward_products(sizes).step_operations() + alpha - saved,
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

TEST(BenchProductCounter, CountsOursAndConvolutions) {
  const auto complex = torch::rand({5, 3, 4, 2}),
             matrices = torch::rand({5, 4, 6, 2});
  EXPECT_EQ(operations_of([&] { kernels::mode_product(complex, matrices); }),
            8.0 * 5 * 3 * 4 * 6);
  const auto qkv = torch::rand({2, 7, 3 * 16});
  EXPECT_EQ(operations_of([&] {
              kernels::set_attention(qkv, {.heads = 1, .wanted = 7});
            }),
            4.0 * 2 * 7 * 7 * 16);
  const auto image = torch::rand({2, 3, 9, 8}),
             weight = torch::rand({4, 3, 3, 3});
  EXPECT_EQ(operations_of([&] { torch::conv2d(image, weight); }),
            2.0 * 2 * 7 * 6 * 4 * 27);
}

// Of a network small enough to count: three products at each of 12 nodes, and
// one layer's waves to 2 modes, their matrices, and back.
TEST(BenchFields, TimeAStepAndAForecastOfRandomFields) {
  const run::Experiment experiment(config::Document::from_text(
      "task: forecast\ndevice: cpu\n"
      "data: {file: none.h5, simulator: advection, given: 2,\n"
      "  simulation: [field.points=12, field.frames=6, field.modes=2],\n"
      "  parameters: [none]}\n"
      "model: {name: fno, width: 3, layers: 1, modes: 2}\n"
      "train: {batch: 4}\nloss: {frames: 2, inputs: own}\n",
      "test"));
  const auto runtime = experiment.make_runtime();
  const auto parameters = 2 * 3 + 3 + 2 * 2 * 9 + 9 + 3 + 3 * 12 + 12 + 12 + 1;
  const double frame =
      2 * 12 * (2 * 3 + 3 * 3 + 3 * 12 + 12) + 2 * (2 * 12 * 4 * 3) + 8 * 2 * 9;
  const auto step = bench_field_step(experiment, runtime, {.repeats = 1});
  EXPECT_EQ(step.cases, 4);
  EXPECT_EQ(step.parameters, parameters);
  EXPECT_EQ(step.operations, 3 * 4 * 2 * frame);
  const auto predict =
      bench_field_predict(experiment, runtime, {.repeats = 1, .cases = 2});
  EXPECT_EQ(predict.cases, 2);
  EXPECT_EQ(predict.operations, 2 * 4 * frame);
  const auto plates = with({});
  EXPECT_NE(testing::thrown<UsageError>([&] {
              bench_field_predict(*plates, runtime, {});
            }).find("expected a network for any field, got heat_former"),
            std::string::npos);
}

}  // namespace
}  // namespace propagator::bench
