// A forecast of histories that do not say that they are of heat.

#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/core/observer.h"
#include "propagator/data/tensor_file.h"
#include "propagator/models/forecaster.h"
#include "propagator/run/experiment.h"
#include "propagator/tasks/forecast/forecast.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

using propagator::testing::TemporaryFolder;
using propagator::testing::thrown;

class TasksOtherField : public ::testing::Test {
 protected:
  // Histories in this file; with α if asked for, with a note if there is one.
  std::string write(bool alpha, const std::string& note = "") {
    data::TensorFile content{
        {{"fields", propagator::testing::random({30, 14, 8, 7}, "fields")}},
        note};
    if (alpha) content.tensors["alpha"] = torch::full({30}, 2.0);
    if (!note.empty()) content.tensors["dt"] = torch::full({30}, 1e-4);
    const auto path =
        folder / fmt::format("{}-{}.h5", alpha ? "alpha" : "frames",
                             note.empty() ? "unknown" : "heat");
    data::save_tensors(path, content);
    return path.string();
  }
  static std::unique_ptr<run::Experiment> experiment(const std::string& file) {
    return std::make_unique<run::Experiment>(config::Document::from_text(
        "task: forecast\nprecision: fp64\ndevice: cpu\n"
        "plate: {rows: 8, cols: 7, frames: 14}\ndata: {file: " +
            file +
            "}\nmodel: {visible: 3, width: 16, layers: 1, heads: 2, "
            "feed_forward: 8}\n",
        "test.yaml"));
  }
  struct Prepared {
    std::unique_ptr<run::Experiment> experiment;
    std::shared_ptr<torch::nn::Module> model;
    Task& task() const { return experiment->task(); }
  };
  static Prepared prepare(const std::string& file) {
    Prepared prepared{experiment(file), nullptr};
    const auto runtime = prepared.experiment->make_runtime();
    prepared.task().prepare(0, runtime);
    prepared.model = prepared.experiment->make_model(runtime);
    prepared.task().calibrate(*prepared.model);
    return prepared;
  }
  static std::vector<std::string> terms(const Prepared& prepared) {
    std::vector<std::string> names;
    const auto loss = prepared.task().loss(*prepared.model, data::Split::kTrain,
                                           torch::arange(4, torch::kInt64));
    for (const auto& term : loss.terms) names.push_back(term.name);
    return names;
  }
  TemporaryFolder folder;
};

TEST_F(TasksOtherField, IsToldInTheLog) {
  struct Listener : Observer {
    void log(Level, const std::string& line) override { lines += line + "\n"; }
    std::string lines;
  } listener;
  const ObserverScope scope(listener);
  prepare(write(true));
  EXPECT_NE(listener.lines.find("without its terms physics and boundary"),
            std::string::npos)
      << listener.lines;
  listener.lines.clear();
  prepare(write(true, R"({"equation": "heat"})"));
  EXPECT_EQ(listener.lines.find("without its terms"), std::string::npos);
}

TEST_F(TasksOtherField, HasNothingOfHeatInItsLoss) {
  const auto other = prepare(write(true));
  EXPECT_EQ(terms(other), (std::vector<std::string>{"mse", "initial"}));
  const auto loss = other.task().loss(*other.model, data::Split::kTrain,
                                      torch::arange(4, torch::kInt64));
  EXPECT_NEAR(loss.total.item<double>(),
              loss.terms[0].value.item<double>() +
                  0.1 * loss.terms[1].value.item<double>(),
              1e-12);
  EXPECT_EQ(terms(prepare(write(true, R"({"equation": "heat"})"))).size(), 4u);
}

TEST_F(TasksOtherField, HasNothingOfHeatInItsTest) {
  const auto other = prepare(write(true));
  const auto evaluation =
      other.task().evaluate(*other.model, data::Split::kTest);
  const auto& numbers = evaluation.numbers;
  for (const char* key : {"total_loss", "classical"}) {
    EXPECT_FALSE(numbers.contains(key)) << key;
  }
  EXPECT_TRUE(numbers.at("paper").is_null());
  EXPECT_EQ(numbers.at("baselines").size(), 1u);
  auto shown = evaluation.table.text();
  for (const auto& remark : evaluation.remarks) shown += remark;
  for (const char* word : {"paper", "plate", "steady", "total", "alpha"}) {
    EXPECT_EQ(shown.find(word), std::string::npos) << word << "\n" << shown;
  }
  EXPECT_NE(shown.find("ms a case"), std::string::npos) << shown;
}

TEST_F(TasksOtherField, HasNothingOfHeatInItsPictures) {
  const auto other = prepare(write(true));
  const auto series = dynamic_cast<Drawing&>(other.task())
                          .fields(*other.model, data::Split::kTest, 0, 1);
  EXPECT_EQ(series->quantity, "value");
  EXPECT_EQ(series->x.label, "column");
  EXPECT_EQ(series->y.label, "row");
  EXPECT_FALSE(dynamic_cast<Explainable&>(other.task())
                   .propagator_subject(*other.model));
}

TEST_F(TasksOtherField, WithoutAlphaIsTrainedAndAskedWithoutIt) {
  const auto other = prepare(write(false));
  auto& forecaster = models::as_forecaster(*other.model);
  EXPECT_FALSE(forecaster.uses_alpha());
  // Nothing that training does brings it back.
  other.task()
      .loss(*other.model, data::Split::kTrain, torch::arange(4, torch::kInt64))
      .total.backward();
  const auto gradient =
      other.model->named_parameters()["alpha_embedding.weight"].grad();
  EXPECT_EQ(gradient.abs().max().item<double>(), 0);
  const auto surrogate =
      other.task().surrogate(other.model, other.experiment->make_runtime());
  EXPECT_EQ(surrogate->inputs().size(), 1u);
  const auto answer = surrogate->apply(
      {{"fields", propagator::testing::random({2, 3, 8, 7}, "first")}});
  EXPECT_EQ(answer.at("fields").size(1), 14);
  EXPECT_FALSE(answer.contains("alpha"));
}

TEST_F(TasksOtherField, AModelThatUsesAlphaIsNotTestedWithoutIt) {
  const auto with = prepare(write(true));
  const auto without = prepare(write(false));
  EXPECT_NE(thrown<DataError>([&] {
              without.task().evaluate(*with.model, data::Split::kTest);
            }).find("expected an array named 'alpha'"),
            std::string::npos);
  without.task().evaluate(*without.model, data::Split::kTest);
}

}  // namespace
}  // namespace propagator::tasks
