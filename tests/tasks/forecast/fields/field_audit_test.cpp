// The leak audit of forecasts of fields, on the paths and in the precisions
// that a test and `predict` use.

#include "propagator/explain/leak_audit.h"

#include <c10/core/InferenceMode.h>
#include <torch/utils.h>

#include "propagator/models/field_forecaster.h"
#include "propagator/run/test.h"
#include "propagator/tasks/explainable.h"
#include "tasks/forecast/fields/field_waves.h"

namespace propagator::tasks {
namespace {

using data::Split;
using testing::random;
using torch::Tensor;

class TasksFieldAudit : public FieldWaves {
 protected:
  // Fields of two channels with a number and a map of each case.
  std::string told() {
    const auto path = (folder_ / "told.h5").string();
    data::save_tensors(path, {{{"u", random({20, 8, 16, 2}, "u")},
                               {"speed", random({20}, "speed")},
                               {"k", random({20, 16}, "k")}},
                              ""});
    return path;
  }
  static run::Experiment audited(const std::string& file,
                                 const std::vector<std::string>& overrides) {
    auto document = config::Document::from_text(
        "task: forecast\ndevice: cpu\ndata: {given: 2, file: " + file +
            "}\nmodel: {width: 8}\n",
        "test");
    for (const auto& text : overrides) document.override_with(text);
    return run::Experiment(document);
  }
  static AuditSubject subject_of(const run::Experiment& e,
                                 torch::nn::Module& model) {
    return *dynamic_cast<Explainable&>(e.task()).audit_subject(model);
  }
};

TEST_F(TasksFieldAudit, HonestModelsKeepTheirBitsOnEveryPath) {
  const auto file = told();
  for (const auto& device : testing::devices()) {
    for (const std::string precision : {"fp64", "fp32", "tf32", "bf16"}) {
      if (precision == "tf32" && !device.is_cuda()) continue;
      for (const auto& network : std::vector<std::vector<std::string>>{
               {"model.name=fno", "model.modes=3"},
               {"model.name=fno", "model.modes=3", "model.mask=block"},
               {"model.name=cnn"},
               {"model.name=unet"},
               {"model.name=conv_lstm"},
               {"model.name=space_time", "model.patch=4"},
               {"model.name=space_time", "model.patch=4",
                "model.mask=block"}}) {
        auto overrides = network;
        overrides.insert(
            overrides.end(),
            {"device=" + device.str(), "precision=" + precision,
             "data.axes=[case, time, x, channel]", "eval.batch=1"});
        const auto e = audited(file, overrides);
        const auto runtime = e.make_runtime();
        const RuntimeScope scope(runtime);
        e.task().prepare(0, runtime);
        const auto model = e.make_model(runtime);
        e.task().calibrate(*model);
        const auto audit = explain::audit_leaks(subject_of(e, *model), 0);
        ASSERT_EQ(audit.paths.size(), 2u);
        EXPECT_EQ(audit.paths[0].outputs, 2 * 6);  // forecast frames
        EXPECT_EQ(audit.paths[1].outputs, 2 * 8);  // with the given ones
        for (const auto& path : audit.paths) {
          EXPECT_EQ(path.leaks, 0)
              << path.name << " " << precision << " " << network[0];
        }
      }
    }
  }
}

// With one case to test on it is audited with noise and with NaN all the same,
// and a test that is shorter than a forecast is as long in both paths.
TEST_F(TasksFieldAudit, OneCaseIsEnough) {
  const auto e = audited(waves(false), {"data.test=0.05", "eval.steps=20",
                                        "eval.batch=3", "model.modes=3"});
  const auto model = testing::prepared_model(e);
  ASSERT_EQ(e.task().size(Split::kTest), 6);  // windows of 8 frames
  e.task().calibrate(*model);
  const auto audit = explain::audit_leaks(subject_of(e, *model), 0);
  EXPECT_EQ(audit.cases, 2);
  EXPECT_EQ(audit.paths.at(1).outputs, 2 * 8);
  EXPECT_EQ(audit.leaks(), 0);
}

// Who asks for a forecast may say what came later: it is not looked at.
TEST_F(TasksFieldAudit, LaterFramesDoNotMatterToPredict) {
  const auto e = audited(waves(false), {"model.modes=3"});
  const auto model = testing::prepared_model(e);
  e.task().calibrate(*model);
  const auto surrogate = e.task().surrogate(model, testing::kDouble);
  const auto given = random({2, 8, 16, 1}, "given");
  auto known = given.clone();
  known.slice(1, 2).fill_(std::nan(""));
  EXPECT_TRUE(torch::equal(surrogate->apply({{"fields", known}}).at("fields"),
                           surrogate->apply({{"fields", given}}).at("fields")));
  known[1][1][3][0] = std::nan("");
  EXPECT_NE(testing::thrown<UsageError>([&] {
              surrogate->apply({{"fields", known}});
            }).find("not finite"),
            std::string::npos);
}

// Half of each frame, and, whenever `leaks` says so, something of a case that
// lies open before it.
class Spy : public models::FrameNet {
 public:
  Spy(std::function<bool()> leaks, const Tensor& open)
      : FrameNet({.channels = 1, .given = 2}),
        leaks_(std::move(leaks)),
        open_(open) {}
  Tensor forward(const Tensor& frames, const Tensor&) override {
    const auto last = frames.slice(1, shape().given - 1) / 2;
    if (!leaks_()) return last;
    return last + open_.slice(1, shape().given).nan_to_num().mean();
  }

 private:
  std::function<bool()> leaks_;
  const Tensor& open_;
};

// The leaks that the audit finds in each path of a spy.
std::map<std::string, int64_t> spied(const run::Experiment& e,
                                     const std::function<bool()>& leaks) {
  Tensor open;
  const auto runtime = e.make_runtime();
  e.task().prepare(0, runtime);
  const auto model = std::make_shared<models::FieldForecaster>(
      std::make_shared<Spy>(leaks, open), models::Answer::kChange, 0);
  auto subject = *dynamic_cast<Explainable&>(e.task()).audit_subject(*model);
  for (auto& path : subject.paths) {
    path.answer = [&open, ask = path.answer](const Tensor& frames) {
      open = frames;
      return ask(frames);
    };
  }
  std::map<std::string, int64_t> found;
  for (const auto& path : explain::audit_leaks(subject, 0).paths) {
    EXPECT_TRUE(path.repeatable);
    found[path.name] = path.leaks;
  }
  return found;
}

using Found = std::map<std::string, int64_t>;

TEST_F(TasksFieldAudit, FindsALeakOfPredictAlone) {
  const auto e = audited(waves(false), {});
  EXPECT_EQ(spied(e, [] { return false; }),
            (Found{{"test", 0}, {"predict", 0}}));
  EXPECT_EQ(spied(e, [] { return true; }),
            (Found{{"test", 2 * 6}, {"predict", 2 * 6}}));
  EXPECT_EQ(spied(e, [] { return c10::InferenceMode::is_enabled(); }),
            (Found{{"test", 0}, {"predict", 2 * 6}}));
}

TEST_F(TasksFieldAudit, FindsALeakInBf16Alone) {
  const auto rounds = [] {
    const auto one = torch::ones({1, 1});
    return torch::mm(one, one).scalar_type() == torch::kBFloat16;
  };
  EXPECT_EQ(spied(audited(waves(false), {"precision=bf16"}), rounds),
            (Found{{"test", 2 * 6}, {"predict", 2 * 6}}));
  EXPECT_EQ(spied(audited(waves(false), {"precision=fp32"}), rounds),
            (Found{{"test", 0}, {"predict", 0}}));
}

TEST_F(TasksFieldAudit, ARunThatLeaksInPredictHasFailed) {
  const auto e = audited(waves(false), {});
  const auto runtime = e.make_runtime();
  e.task().prepare(0, runtime);
  // The audit's changed cases are not in its hands: it draws lots instead.
  Tensor open = torch::zeros({1, 3});
  const auto model = std::make_shared<models::FieldForecaster>(
      std::make_shared<Spy>(
          [&] {
            open += 0.01;
            return c10::InferenceMode::is_enabled();
          },
          open),
      models::Answer::kChange, 0);
  const auto result = run::test_model(e, *model, runtime, Split::kTest);
  EXPECT_EQ(result.audit.at("paths")[0].at("leaks"), 0);
  EXPECT_GT(result.audit.at("paths")[1].at("leaks"), 0);
  EXPECT_TRUE(result.leaks_though_honest());
  EXPECT_EQ(result.record.at("failed"), true);
}

}  // namespace
}  // namespace propagator::tasks
