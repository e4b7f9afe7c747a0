#include "propagator/explain/learned_propagator.h"

#include <torch/utils.h>

#include "propagator/core/device.h"
#include "propagator/core/error.h"
#include "propagator/run/experiment.h"
#include "propagator/train/trainer.h"
#include "testing.h"

namespace propagator::explain {
namespace {

using propagator::testing::kFloat64;
using propagator::testing::near;
using propagator::testing::random;
using propagator::testing::TemporaryFolder;

// As much work as it takes.
constexpr double kEverything = 1e30;

constexpr const char* kTiny =
    "plate: {rows: 8, cols: 8, frames: 16}\n"
    "data: {cases: 60}\n"
    "model: {visible: 3, width: 32, layers: 2, heads: 4, feed_forward: 32}\n"
    "train: {max_steps: 600, validate_every: 100, batch: 8}\n"
    "schedule: {lr: 0.01, warmup: 5}\n";

struct TinyPlate {
  explicit TinyPlate(const std::string& extra = "",
                     const std::string& where = "cpu")
      : experiment(config::Document::from_text(
            kTiny + extra + "device: " + where + "\n", "tiny")),
        runtime(experiment.make_runtime()),
        model(experiment.make_model(runtime)) {
    experiment.task().prepare(0, runtime);
  }
  void train() {
    train::Trainer trainer(experiment.task(), model, experiment.train(), 0,
                           runtime, experiment.yaml());
    auto run =
        train::RunDirectory::create(folder / "run", false, experiment.yaml());
    trainer.run(run);
  }
  tasks::PropagatorSubject subject() {
    return *dynamic_cast<tasks::Explainable&>(experiment.task())
                .propagator_subject(*model);
  }
  LearnedPropagator learn() {
    return learn_propagator(subject(), 0, kEverything);
  }

  TemporaryFolder folder;
  run::Experiment experiment;
  Runtime runtime;
  std::shared_ptr<torch::nn::Module> model;
};

// A: one step of the scheme on all nodes as a matrix, edges kept. The base
// plate steps with α dt/dx² = α dt/dy² = 0.1.
torch::Tensor scheme_matrix(int64_t rows, int64_t cols) {
  auto matrix = torch::eye(rows * cols, torch::kFloat64);
  for (int64_t r = 1; r + 1 < rows; ++r) {
    for (int64_t c = 1; c + 1 < cols; ++c) {
      const int64_t node = r * cols + c;
      matrix[node][node] = 1 - 4 * 0.1;
      for (const int64_t neighbour :
           {node - 1, node + 1, node - cols, node + cols}) {
        matrix[node][neighbour] = 0.1;
      }
    }
  }
  return matrix;
}

TEST(ExplainLearnedPropagator, TheTrueOneIsThePowerOfTheSchemesMatrix) {
  TinyPlate tiny;
  const auto subject = tiny.subject();
  const auto sources = torch::eye(64, torch::kFloat64).view({64, 8, 8});
  const auto response = subject.truth(sources);  // (source, time, R, C)
  const auto matrix = scheme_matrix(8, 8);
  for (size_t n = 0; n < subject.times.size(); ++n) {
    auto power = torch::eye(64, torch::kFloat64);
    for (int64_t t = 0; t < subject.times[n]; ++t) power = matrix.mm(power);
    EXPECT_TRUE(near(response.select(1, static_cast<int64_t>(n)).flatten(1).t(),
                     power, {1e-6, 1e-9}))
        << subject.times[n];
  }
}

// A model whose derivative is known: frames sin(s) and s² of a state s.
tasks::PropagatorSubject curved(double wrong) {
  const auto state = random({3, 4}, "state");
  const auto both = [](const torch::Tensor& a, const torch::Tensor& b) {
    return torch::stack({a, b}, 1);
  };
  return {.model =
              [=](const torch::Tensor& s) {
                return both((1 + wrong) * s.sin(), (1 + wrong) * s.square());
              },
          .truth =
              [=](const torch::Tensor& d) {
                return both(state.cos() * d, 2 * state * d);
              },
          .given = [](const torch::Tensor& d) { return 0 * d.unsqueeze(1); },
          .times = {1, 2},
          .state = state,
          .ensemble = random({5, 3, 4}, "ensemble"),
          .work = 1,
          .x = {},
          .y = {},
          .quantity = ""};
}

TEST(ExplainLearnedPropagator, CentralDifferencesGiveTheDerivative) {
  const auto exact = learn_propagator(curved(0), 0, kEverything);
  EXPECT_TRUE(exact.every_node());
  for (const auto& errors : {exact.node.error, exact.data.error}) {
    ASSERT_EQ(errors.size(), 2u);
    for (const double error : errors) EXPECT_LT(error, 1e-7);
  }
  EXPECT_TRUE(near(exact.spectrum_model, exact.spectrum_truth, {1e-6, 1e-9}));
}

TEST(ExplainLearnedPropagator, ErrorsAreSharesOfTheTruth) {
  // All nodes, and as few random directions as are allowed.
  for (const double work : {kEverything, 1.0}) {
    const auto off = learn_propagator(curved(0.25), 0, work);
    for (const auto& distance : {off.node, off.data}) {
      ASSERT_EQ(distance.error.size(), 2u);
      for (const double error : distance.error) EXPECT_NEAR(error, 0.25, 1e-6);
      EXPECT_EQ(distance.error, distance.difference);  // nothing was given
    }
  }
  EXPECT_FALSE(learn_propagator(curved(0), 0, 1).every_node());
}

TEST(ExplainLearnedPropagator, AModelThatKeepsTheLastFrameHasErrorOne) {
  TinyPlate tiny;
  auto subject = tiny.subject();
  subject.model = [&, given = subject.given](const torch::Tensor& states) {
    const auto count = static_cast<int64_t>(subject.times.size());
    return given(states).expand({-1, count, -1, -1});
  };
  const auto kept = learn_propagator(subject, 0, kEverything);
  for (const auto& distance : {kept.node, kept.data}) {
    for (const double error : distance.error) EXPECT_NEAR(error, 1, 2e-3);
    EXPECT_LT(distance.difference.back(), 0.9);
  }
}

TEST(ExplainLearnedPropagator, TrainingBringsItToTheTrueOne) {
  for (const char* predicts :
       {"model.predicts: field\n", "model.predicts: change\n"}) {
    TinyPlate tiny(predicts);
    const auto untrained = tiny.learn();
    tiny.train();
    const auto trained = tiny.learn();
    EXPECT_GT(untrained.data.error.back(), 0.95) << predicts;
    EXPECT_GT(untrained.node.error.back(), 0.95) << predicts;
    EXPECT_LT(trained.data.error.back(), 0.7) << predicts;
    // Of single nodes the data say little, but it is no longer noise.
    EXPECT_LT(trained.node.error.back(), untrained.node.error.back())
        << predicts;
    EXPECT_NE(trained.verdict().find("in the directions of the data"),
              std::string::npos);
  }
}

TEST(ExplainLearnedPropagator, CausalAndPublishedModelsHaveOneToo) {
  for (const char* kind :
       {"model.mask: causal\n",
        "model.inputs: published\neval.protocol: published\n",
        "model.mask: causal\nmodel.inputs: published\n"
        "eval.protocol: published\n"}) {
    TinyPlate tiny(kind);
    const auto result = tiny.learn();
    EXPECT_EQ(result.times, tiny.subject().times);
    EXPECT_GT(result.node.error.back(), 0.3) << kind;
  }
}

// On every device, and in both precisions where there is only one.
TEST(ExplainLearnedPropagator, DevicesAndPrecisionsAgree) {
  const auto expected = TinyPlate("precision: fp64\n", "cpu").learn();
  ASSERT_GT(expected.times.size(), 0u);
  for (const auto& device : propagator::testing::devices()) {
    for (const auto& [precision, tolerance] :
         {std::pair{"fp64", 1e-5}, std::pair{"fp32", 1e-3}}) {
      TinyPlate tiny(fmt::format("precision: {}\n", precision), device.str());
      const auto found = tiny.learn();
      ASSERT_EQ(found.times, expected.times);
      for (size_t t = 0; t < expected.times.size(); ++t) {
        EXPECT_NEAR(found.data.error[t], expected.data.error[t],
                    tolerance * expected.data.error[t])
            << device.str() << " " << precision;
      }
    }
  }
}

TEST(ExplainLearnedPropagator, APointSourceIsWhereItIsAskedFor) {
  TinyPlate tiny;
  const auto subject = tiny.subject();
  auto source = torch::zeros({1, 8, 8}, torch::kFloat64);
  source[0][2][5] = 1;
  const auto found = learn_propagator(subject, 0, 1, {2, 5});
  EXPECT_TRUE(near(found.source_truth, subject.truth(source)[0], kFloat64));
  EXPECT_THROW(learn_propagator(subject, 0, 1, {2, 8}), UsageError);
  EXPECT_THROW(learn_propagator(subject, 0, 1, {2}), UsageError);
}

}  // namespace
}  // namespace propagator::explain
