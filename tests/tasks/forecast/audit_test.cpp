// The leak audit of forecasts, on the paths and in the precisions that a test
// and `predict` use.

#include <torch/utils.h>

#include "peeper.h"
#include "propagator/core/error.h"
#include "propagator/explain/leak_audit.h"
#include "propagator/run/test.h"
#include "propagator/tasks/forecast/forecast.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

constexpr const char* kAudited = R"(
task: forecast
device: cpu
plate: {rows: 8, cols: 7, frames: 14}
data: {cases: 30}
model: {visible: 3, width: 16, layers: 2, heads: 2, feed_forward: 8}
)";

std::unique_ptr<run::Experiment> audited(
    const std::vector<std::string>& overrides) {
  auto document = config::Document::from_text(kAudited, "test.yaml");
  for (const auto& text : overrides) document.override_with(text);
  return std::make_unique<run::Experiment>(document);
}

explain::LeakAudit audit_of(const run::Experiment& experiment,
                            torch::nn::Module& model) {
  auto& explainable = dynamic_cast<Explainable&>(experiment.task());
  return explain::audit_leaks(*explainable.audit_subject(model), 0);
}

TEST(TasksForecastAudit, HonestModelsKeepTheirBitsOnEveryPath) {
  for (const auto& device : propagator::testing::devices()) {
    for (const std::string precision : {"fp64", "fp32", "tf32", "bf16"}) {
      if (precision == "tf32" && !device.is_cuda()) continue;
      for (const std::string mask : {"block", "causal"}) {
        for (const std::string predicts : {"field", "scaled_change"}) {
          const auto experiment =
              audited({"device=" + device.str(), "precision=" + precision,
                       "model.mask=" + mask, "model.predicts=" + predicts,
                       "model.scaling=case", "eval.batch=3"});
          const auto runtime = experiment->make_runtime();
          const RuntimeScope scope(runtime);
          experiment->task().prepare(0, runtime);
          const auto model = experiment->make_model(runtime);
          const auto audit = audit_of(*experiment, *model);
          ASSERT_EQ(audit.paths.size(), 2u);
          for (const auto& path : audit.paths) {
            EXPECT_EQ(path.leaks, 0) << path.name << precision << mask;
            EXPECT_GE(path.outputs, 2 * 14);
          }
        }
      }
    }
  }
}

TEST(TasksForecastAudit, PublishedModelsLeakInEveryHiddenFrame) {
  for (const std::string mask : {"block", "causal"}) {
    const auto experiment =
        audited({"model.mask=" + mask, "model.inputs=published",
                 "eval.protocol=published"});
    const auto runtime = experiment->make_runtime();
    experiment->task().prepare(0, runtime);
    const auto model = experiment->make_model(runtime);
    const auto audit = audit_of(*experiment, *model);
    ASSERT_EQ(audit.paths.size(), 1u);  // it cannot predict
    EXPECT_EQ(audit.leaks(), 2 * (14 - 3)) << mask;
  }
}

// Its error is zero, and its gradient would be too.
TEST(TasksForecastAudit, AnHonestRunThatLeaksHasFailed) {
  for (const bool autoregressive : {false, true}) {
    const auto experiment = audited({});
    const auto runtime = experiment->make_runtime();
    experiment->task().prepare(0, runtime);
    const auto peeper = std::make_shared<testing::Peeper>(
        models::FieldShape{.frames = 14, .rows = 8, .cols = 7}, 3,
        autoregressive);
    const auto result =
        run::test_model(*experiment, *peeper, runtime, data::Split::kTest);
    EXPECT_EQ(result.record.at("mse"), 0);
    EXPECT_GT(result.audit.at("leaks"), 0);
    EXPECT_TRUE(result.leaks_though_honest());
    EXPECT_EQ(result.record.at("failed"), true);
    EXPECT_NE(result.text().find("calls itself honest and leaks"),
              std::string::npos);
  }
}

TEST(TasksForecastAudit, APublishedRunThatLeaksHasNotFailed) {
  const auto experiment =
      audited({"model.inputs=published", "eval.protocol=published"});
  const auto runtime = experiment->make_runtime();
  experiment->task().prepare(0, runtime);
  const auto model = experiment->make_model(runtime);
  const auto result =
      run::test_model(*experiment, *model, runtime, data::Split::kTest);
  EXPECT_GT(result.audit.at("leaks"), 0);
  EXPECT_FALSE(result.leaks_though_honest());
  EXPECT_EQ(result.record.at("failed"), false);
}

}  // namespace
}  // namespace propagator::tasks
