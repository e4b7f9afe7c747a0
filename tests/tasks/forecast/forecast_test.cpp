#include "propagator/tasks/forecast/forecast.h"

#include <torch/utils.h>

#include <numeric>

#include "propagator/core/error.h"
#include "propagator/models/heat_former.h"
#include "propagator/run/experiment.h"
#include "propagator/tasks/forecast/baselines.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

using propagator::testing::kFloat64;
using propagator::testing::near;
using propagator::testing::TemporaryFolder;
using propagator::testing::thrown;

constexpr const char* kConfig = R"(
task: forecast
precision: fp64
device: cpu
plate: {rows: 8, cols: 7, frames: 14}
data: {cases: 30}
model: {visible: 3, width: 16, layers: 1, heads: 2, feed_forward: 8}
)";

std::unique_ptr<run::Experiment> make(
    const std::vector<std::string>& overrides = {}) {
  auto document = config::Document::from_text(kConfig, "test.yaml");
  for (const auto& text : overrides) document.override_with(text);
  return std::make_unique<run::Experiment>(document);
}

// With what a test lets a model see everything.
const std::vector<std::string> kSeeing{"model.inputs=published",
                                       "eval.protocol=published"};

// A forecaster that knows the answer, or is off by a given amount.
class Oracle : public models::Forecaster {
 public:
  explicit Oracle(double error) : error_(error) {}
  torch::Tensor forward(const torch::Tensor& frames,
                        const torch::Tensor&) override {
    return frames + error_;
  }
  torch::Tensor predict(const torch::Tensor&, const torch::Tensor&,
                        const std::function<void(int64_t)>&) override {
    return {};
  }
  int64_t visible() const override { return 3; }
  bool autoregressive() const override { return false; }
  int64_t first_hidden(int64_t) const override { return 3; }

 private:
  double error_;
};

double term(const train::Loss& loss, const std::string& name) {
  for (const auto& t : loss.terms) {
    if (t.name == name) return t.value.item<double>();
  }
  ADD_FAILURE() << "no term " << name;
  return 0;
}

TEST(TasksForecast, TruthHasNoLossInEitherUnits) {
  const auto positions = torch::tensor({0, 1, 2}, torch::kInt64);
  for (const char* units : {"rate", "step"}) {
    const auto experiment = make(
        {std::string("loss.physics_units=") + units, "loss.correlation=1"});
    experiment->task().prepare(0, experiment->make_runtime());
    Oracle oracle(0);
    const auto loss =
        experiment->task().loss(oracle, data::Split::kTrain, positions);
    EXPECT_LT(loss.total.item<double>(), 1e-12);
    EXPECT_LT(term(loss, "physics"), 1e-20);
  }
}

TEST(TasksForecast, ConstantErrorInEachTerm) {
  const auto experiment = make({"loss.correlation=1"});
  experiment->task().prepare(0, experiment->make_runtime());
  Oracle oracle(0.5);
  const auto positions = torch::tensor({0, 5}, torch::kInt64);
  const auto loss =
      experiment->task().loss(oracle, data::Split::kTrain, positions);
  EXPECT_NEAR(term(loss, "mse"), 0.25, 1e-12);
  EXPECT_NEAR(term(loss, "boundary"), 1, 1e-12);
  EXPECT_NEAR(term(loss, "initial"), 0.25, 1e-12);
  EXPECT_LT(term(loss, "physics"), 1e-15);
  EXPECT_NEAR(term(loss, "correlation"), 0, 1e-12);
  EXPECT_NEAR(loss.total.item<double>(), 0.25 + 0.1 + 0.025, 1e-12);
}

// An error that is the same everywhere counts as often as there are frames up
// to the first steady one, each found here by itself.
TEST(TasksForecast, FramesOfASteadyPlateDoNotCount) {
  const auto experiment = make({"loss.steady=0.02", "loss.physics=0"});
  auto& task = experiment->task();
  task.prepare(0, experiment->make_runtime());
  const auto positions = torch::arange(6);
  data::PlateDataOptions cases;
  cases.cases = 30;
  const data::PlateDataset plates(dynamic_cast<Forecast&>(task).plate(), cases,
                                  0, experiment->make_runtime());
  const auto frames = plates.batch(data::Split::kTrain, positions).frames;
  int64_t counted = 0;
  for (int64_t n = 0; n < 6; ++n) {
    int64_t frame = 1;
    const auto step = [&] {
      return (frames[n][frame] - frames[n][frame - 1]).abs().max();
    };
    while (frame < 13 && step().item<double>() > 0.02) ++frame;
    counted += frame + 1;
  }
  EXPECT_GT(counted, 6 * 2);
  EXPECT_LT(counted, 6 * 14);
  Oracle oracle(0.5);
  const auto mse = [&](data::Split split) {
    return term(task.loss(oracle, split, positions.narrow(0, 0, 3 * 2)), "mse");
  };
  EXPECT_NEAR(mse(data::Split::kTrain),
              0.25 * static_cast<double>(counted) / (6 * 14), 1e-12);
  EXPECT_NEAR(mse(data::Split::kValidation), 0.25, 1e-12);
  EXPECT_NE(thrown<ConfigError>([] {
              make({"loss.steady=0.1", "loss.frames=heteroscedastic"});
            }).find("loss.steady"),
            std::string::npos);
}

TEST(TasksForecast, EvaluationMeasuresWhatItSays) {
  const auto experiment = make(kSeeing);
  experiment->task().prepare(0, experiment->make_runtime());
  Oracle oracle(0.1);
  const auto result =
      experiment->task().evaluate(oracle, data::Split::kTest).numbers;
  EXPECT_EQ(result.at("cases"), 3);
  EXPECT_NEAR(result.at("mse").get<double>(), 0.01, 1e-12);
  EXPECT_NEAR(result.at("mse_late").get<double>(), 0.01, 1e-12);
  EXPECT_EQ(result.at("mse_per_frame").size(), 14u);
  EXPECT_EQ(result.at("shown_frames"), nlohmann::json({4, 7, 13}));
  // mse + 0.1 (four edges) + 0.1 (initial); a constant has no residual.
  EXPECT_NEAR(result.at("total_loss").get<double>(), 0.01 * (1 + 0.4 + 0.1),
              1e-12);
  const auto& kept = result.at("baselines").at("last frame kept");
  EXPECT_GT(kept.at("mse_late"), kept.at("mse_early"));
}

// The heat-plate paper's weights and units, whatever the model learns with.
TEST(TasksForecast, TheTotalLossIsThePapers) {
  auto overrides = kSeeing;
  const auto paper = make(overrides);
  for (const char* key : {"loss.mse=3", "loss.physics=0.1",
                          "loss.physics_units=step", "eval.batch=2"}) {
    overrides.emplace_back(key);
  }
  const auto other = make(overrides);
  const auto runtime = paper->make_runtime();
  paper->task().prepare(0, runtime);
  other->task().prepare(0, runtime);
  const auto model = paper->make_model(runtime);
  const auto all = torch::arange(3, torch::kInt64);
  const double expected =
      paper->task().loss(*model, data::Split::kTest, all).total.item<double>();
  for (const auto* experiment : {paper.get(), other.get()}) {
    const auto result =
        experiment->task().evaluate(*model, data::Split::kTest).numbers;
    EXPECT_NEAR(result.at("total_loss").get<double>(), expected,
                1e-12 * expected);
    EXPECT_GT(result.at("total_loss"), result.at("mse"));
    EXPECT_NEAR(result.at("total_loss_terms").at("mse").get<double>(),
                result.at("mse").get<double>(), 1e-12);
  }
}

TEST(TasksForecast, BaselinesByHand) {
  physics::HeatPlateOptions plate;
  plate.rows = plate.cols = 8;
  plate.frames = 2000;
  const auto cases = physics::draw_cases(plate, 0, 0, 2);
  const auto frames = physics::solve(plate, cases);
  const auto kept = keep_last_frame(frames, 5);
  EXPECT_TRUE(torch::equal(kept.select(1, 3), frames.select(1, 3)));
  EXPECT_TRUE(torch::equal(kept.select(1, 1999), frames.select(1, 4)));
  const auto line = line_to_steady_state(plate, frames, 5);
  EXPECT_TRUE(torch::equal(line.select(1, 4), frames.select(1, 4)));
  // After 2000 steps the plate is at rest, where the line ends.
  EXPECT_TRUE(near(line.select(1, 1999), frames.select(1, 1999), {0, 1e-9}));
  // Halfway along the 1995 steps the line is halfway.
  const auto middle = (line.select(1, 4) + line.select(1, 1999)) / 2;
  EXPECT_TRUE(near((line.select(1, 1001) + line.select(1, 1002)) / 2, middle,
                   kFloat64));
}

// The data are the scheme's, so that it has no error at all.
TEST(TasksForecast, TheClassicalAnswerIsExactAndTimed) {
  for (const char* step : {"plate.time_step=cfl", "plate.time_step=fixed"}) {
    const auto experiment = make({step});
    const auto runtime = experiment->make_runtime();
    experiment->task().prepare(0, runtime);
    const auto model = experiment->make_model(runtime);
    const auto evaluation =
        experiment->task().evaluate(*model, data::Split::kTest);
    const auto& classical = evaluation.numbers.at("classical");
    const auto& given = classical.at("explicit Euler, alpha given");
    const auto& fitted = classical.at("explicit Euler, alpha fitted");
    EXPECT_EQ(given.at("mse"), 0);
    EXPECT_LT(fitted.at("mse"), 1e-24);
    EXPECT_EQ(given.at("mse_per_frame").size(), 14u);
    EXPECT_GT(given.at("seconds_per_case"), 0);
    EXPECT_GT(fitted.at("seconds_per_case"), 0);
    EXPECT_GT(evaluation.numbers.at("seconds_per_case"), 0);
    for (const char* text : {"explicit Euler, alpha given",
                             "explicit Euler, alpha fitted", "ms a plate"}) {
      EXPECT_NE(evaluation.table.text().find(text), std::string::npos) << text;
    }
  }
}

TEST(TasksForecast, OneFrameFitsNoDiffusivity) {
  const auto experiment = make({"model.visible=1"});
  const auto runtime = experiment->make_runtime();
  experiment->task().prepare(0, runtime);
  const auto model = experiment->make_model(runtime);
  const auto numbers =
      experiment->task().evaluate(*model, data::Split::kTest).numbers;
  EXPECT_EQ(numbers.at("classical").size(), 1u);
}

TEST(TasksForecast, TheSurrogateEqualsTheModelAndRefusesBadInput) {
  const auto experiment = make();
  const auto runtime = experiment->make_runtime();
  const auto model = experiment->make_model(runtime);
  const auto surrogate = experiment->task().surrogate(model, runtime);
  auto& forecaster = dynamic_cast<models::Forecaster&>(*model);
  const torch::NoGradGuard no_grad;
  physics::HeatPlateOptions plate;
  plate.rows = 8, plate.cols = 7, plate.frames = 3;
  const auto cases = physics::draw_cases(plate, 9, 0, 5);
  const auto first = physics::solve(plate, cases);
  const auto answer =
      surrogate->apply({{"fields", first}, {"alpha", cases.alpha}});
  EXPECT_TRUE(near(answer.at("fields"), forecaster.predict(first, cases.alpha),
                   kFloat64));

  const auto refused = [&](const torch::Tensor& fields,
                           const torch::Tensor& alpha) {
    return thrown<UsageError>([&] {
      surrogate->apply({{"fields", fields}, {"alpha", alpha}});
    });
  };
  EXPECT_NE(refused(first.slice(1, 0, 2), cases.alpha).find("at least 3"),
            std::string::npos);
  auto broken = first.clone();
  broken[4][1][2][3] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(refused(broken, cases.alpha).find("case 4, frame 1, node (2, 3)"),
            std::string::npos);
  EXPECT_NE(refused(first, cases.alpha.slice(0, 1)).find("'alpha'"),
            std::string::npos);
  EXPECT_NE(refused(first, -cases.alpha).find("positive"), std::string::npos);
  EXPECT_NE(thrown<UsageError>([&] {
              surrogate->apply({{"fields", first}});
            }).find("a tensor named 'alpha', got fields"),
            std::string::npos);
}

TEST(TasksExperiment, SameSeedSameWeightsAndResolvedConfigReadsBack) {
  const auto a = make(), b = make({"seed=3"});
  const auto runtime = a->make_runtime();
  const auto first = a->make_model(runtime), second = a->make_model(runtime);
  const auto other = b->make_model(runtime);
  EXPECT_TRUE(torch::equal(first->parameters()[0], second->parameters()[0]));
  EXPECT_FALSE(torch::equal(first->parameters()[0], other->parameters()[0]));
  const run::Experiment again(config::Document::from_text(b->yaml(), "copy"));
  EXPECT_EQ(again.hash(), b->hash());
  EXPECT_NE(a->hash(), b->hash());
}

TEST(TasksExperiment, ContradictionsCarryTheirPlace) {
  const auto heads = thrown<ConfigError>([] { make({"model.heads=3"}); });
  EXPECT_EQ(heads,
            "-s model.heads=3: model.heads: expected a divisor of model.width "
            "= 16, got 3");
  const auto visible = thrown<ConfigError>([] { make({"plate.frames=3"}); });
  EXPECT_EQ(visible.find("test.yaml:7:18: model.visible: expected fewer than"),
            0u)
      << visible;
  EXPECT_THROW(make({"model.inputs=published"}), ConfigError);
  EXPECT_THROW(make({"task=forcast"}), ConfigError);
  EXPECT_THROW(make({"model.name=heat"}), ConfigError);
}

// Autoregressive models as the MSE, the others as the total loss.
TEST(TasksForecast, ThePublishedNumberIsOfItsOwnPlateAndMetricOnly) {
  using Claim = std::map<std::string, double>;
  const auto published = [&](const std::vector<std::string>& overrides) {
    auto all = kSeeing;
    all.insert(all.end(), overrides.begin(), overrides.end());
    const auto experiment = make(all);
    experiment->task().prepare(0, experiment->make_runtime());
    Oracle oracle(0.1);
    const auto evaluation =
        experiment->task().evaluate(oracle, data::Split::kTest);
    Claim claim;
    for (const auto& metric :
         Evaluation::from_json(evaluation.to_json()).metrics) {
      if (metric.published) claim[metric.name] = *metric.published;
    }
    return claim;
  };
  const auto with = [&](const std::string& key) {
    return published({"plate.rows=26", "plate.cols=26", "plate.frames=401",
                      "model.visible=5", "data.cases=10", key});
  };
  EXPECT_EQ(with("model.mask=block"), (Claim{{"total loss", 1.13e-6}}));
  EXPECT_EQ(with("model.mask=causal"), (Claim{{"MSE", 3.2e-7}}));
  EXPECT_EQ(with("plate.configuration=challenge-1"),
            (Claim{{"total loss", 8.43e-7}}));
  EXPECT_EQ(with("plate.time_step=fixed"), Claim());
  EXPECT_EQ(with("plate.rows=27"), Claim());
  EXPECT_EQ(published({}), Claim());
}

TEST(TasksForecast, UnitsOfAModelComeFromTheTrainingSplit) {
  const auto experiment = make({"model.predicts=scaled_change"});
  const auto runtime = experiment->make_runtime();
  auto& task = experiment->task();
  task.prepare(0, runtime);
  const auto model = experiment->make_model(runtime);
  task.calibrate(*model);
  // All cases that training sees, as the page would show them.
  const auto frames = dynamic_cast<Drawing&>(task)
                          .fields(*model, data::Split::kTrain, 0,
                                  task.size(data::Split::kTrain))
                          ->truth;
  const auto change = frames - frames.narrow(1, 2, 1);
  EXPECT_TRUE(near(model->named_parameters()["change_scale"],
                   change.square().mean(0).sqrt(), kFloat64));
}

// Data, loss, test and forecast: the same numbers on every device, and in both
// precisions where there is only one.
TEST(TasksForecast, DevicesAndPrecisionsAgree) {
  for (const std::string mask : {"block", "causal"}) {
    const auto loss_and_error = [&](const std::string& device,
                                    const std::string& precision) {
      const auto experiment = make(
          {"device=" + device, "precision=" + precision, "model.mask=" + mask,
           "model.predicts=scaled_change", "model.scaling=case"});
      const auto runtime = experiment->make_runtime();
      auto& task = experiment->task();
      task.prepare(3, runtime);
      const auto model = experiment->make_model(runtime);
      task.calibrate(*model);
      const auto positions = torch::arange(4, torch::kInt64);
      const auto loss = task.loss(*model, data::Split::kTrain, positions);
      const double error =
          task.evaluate(*model, data::Split::kTest).numbers.at("mse");
      return torch::tensor({loss.total.item<double>(), error}, torch::kFloat64);
    };
    const auto expected = loss_and_error("cpu", "fp64");
    for (const auto& device : propagator::testing::devices()) {
      EXPECT_TRUE(
          near(loss_and_error(device.str(), "fp64"), expected, {1e-9, 0}))
          << mask << " on " << device;
      EXPECT_TRUE(
          near(loss_and_error(device.str(), "fp32"), expected, {1e-4, 0}))
          << mask << " on " << device;
    }
  }
}

}  // namespace
}  // namespace propagator::tasks
