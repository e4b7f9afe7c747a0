#include "propagator/run/history_figures.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/train/schedule.h"
#include "testing.h"

namespace propagator::run {
namespace {

using propagator::testing::TemporaryFolder;
using propagator::testing::thrown;
using train::History;
using train::read_history;
using train::ScheduleKind;
using train::ScheduleOptions;

// A run of 100 epochs of ten steps under a schedule, logged at each epoch.
History history_of(ScheduleKind kind) {
  const TemporaryFolder folder;
  std::string lines;
  const ScheduleOptions options{.kind = kind, .lr = 1e-3, .warmup = 50};
  for (int64_t epoch = 1; epoch <= 100; ++epoch) {
    const int64_t step = 10 * epoch;
    const double loss = 1.0 / static_cast<double>(step);
    lines +=
        nlohmann::json{
            {"kind", "train"},
            {"step", step},
            {"loss", loss},
            {"lr", train::learning_rate(options, step - 1, epoch, 1000)},
            {"terms", {{"mse", loss}, {"physics", 2 * loss}}}}
            .dump() +
        "\n";
    if (epoch % 10 == 0) {
      // The best validation is not the last one.
      lines += nlohmann::json{{"kind", "validation"},
                              {"step", step},
                              {"loss", epoch == 70 ? 1e-9 : loss}}
                   .dump() +
               "\n";
    }
  }
  lines += "{\"kind\": \"train\", \"step\": 10";  // cut short by a crash
  write_file_atomically(folder / "metrics.jsonl", lines);
  return read_history(folder / "metrics.jsonl");
}

std::vector<std::pair<double, std::string>> marks(const History& history) {
  std::vector<std::pair<double, std::string>> list;
  for (const auto& event : events_of(history)) {
    list.emplace_back(event.x, event.label);
  }
  return list;
}

TEST(RunHistoryFigures, ReadsCurvesAndTermsAndPassesOverABrokenLine) {
  const auto history = history_of(ScheduleKind::kPublished);
  EXPECT_EQ(history.train.step.size(), 100u);
  EXPECT_EQ(history.validation.step.size(), 10u);
  const auto& [step, physics] = history.train.terms.at("physics");
  EXPECT_DOUBLE_EQ(step.at(4), 50);
  EXPECT_DOUBLE_EQ(physics.at(4), 2.0 / 50);
  EXPECT_TRUE(read_history("no/such/file").empty());
}

// `resume` may change what the loss is made of.
TEST(RunHistoryFigures, TermsThatComeAndGoHaveTheirOwnSteps) {
  const TemporaryFolder folder;
  const auto metrics = folder / "metrics.jsonl";
  write_file_atomically(
      metrics,
      R"({"kind": "train", "step": 1, "loss": 1, "terms": {"early": 10}})"
      "\n"
      R"({"kind": "train", "step": 2, "loss": 1, "terms": {"late": 20}})"
      "\n"
      R"({"kind": "train", "step": 3, "loss": 1, "terms": {"late": 30}})"
      "\n");
  const auto terms = read_history(metrics).train.terms;
  EXPECT_EQ(terms.at("early").step, (std::vector<double>{1}));
  EXPECT_EQ(terms.at("late").step, (std::vector<double>{2, 3}));
  EXPECT_EQ(terms.at("late").value, (std::vector<double>{20, 30}));
}

TEST(RunHistoryFigures, LinesThatAreNotOursAreNamed) {
  const TemporaryFolder folder;
  const auto metrics = folder / "metrics.jsonl";
  const auto problem = [&](const std::string& line) {
    write_file_atomically(metrics, "{\"step\": 1}\n" + line + "\n");
    return thrown<DataError>([&] { read_history(metrics); });
  };
  const auto place = metrics.string() + ": line 2: ";
  EXPECT_EQ(problem(R"({"step": 2, "terms": {"a\n`b`": 1}})"),
            place + "a term has a control character in its name");
  for (const char* line :
       {R"({"step": "2"})", R"({"step": null})", R"({"step": 2, "kind": 1})",
        R"({"step": 2, "loss": "1"})", R"({"step": 2, "lr": []})",
        R"({"step": 2, "terms": {"a": {}}})"}) {
    EXPECT_TRUE(problem(line).starts_with(place)) << line;
  }
}

TEST(RunHistoryFigures, ANumberThatIsNotFiniteLeavesAGap) {
  const TemporaryFolder folder;
  const auto metrics = folder / "metrics.jsonl";
  write_file_atomically(metrics,
                        R"({"step": 1, "loss": null, "terms": {"a": null}})");
  const auto history = read_history(metrics).train;
  EXPECT_TRUE(std::isnan(history.loss.at(0)));
  EXPECT_TRUE(std::isnan(history.terms.at("a").value.at(0)));
}

// A likelihood falls below zero, where a logarithmic scale shows nothing.
TEST(RunHistoryFigures, NegativeLossesHaveALinearScale) {
  const auto script_of = [](const std::string& losses, const char* figure) {
    const TemporaryFolder folder;
    write_file_atomically(folder / "metrics.jsonl", losses);
    report::Report report(folder.path(), "report.html", "a", "b");
    draw_history(read_history(folder / "metrics.jsonl"), report);
    const auto path = folder / "figures" / (std::string(figure) + ".gp");
    return std::filesystem::exists(path) ? read_file(path) : "";
  };
  const std::string positive =
      R"({"kind": "train", "step": 1, "loss": 2, "terms": {"mse": 1}})"
      "\n";
  const std::string negative =
      R"({"kind": "train", "step": 2, "loss": -3, "terms": {"mse": 1, "nll": -4}})"
      "\n";
  const std::string log = "set logscale y";
  EXPECT_NE(script_of(positive, "loss").find(log), std::string::npos);
  EXPECT_EQ(script_of(positive, "loss-terms-signed"), "");
  const auto both = positive + negative;
  EXPECT_EQ(script_of(both, "loss").find(log), std::string::npos);
  EXPECT_NE(script_of(both, "loss-terms").find(log), std::string::npos);
  const auto likelihood = script_of(both, "loss-terms-signed");
  EXPECT_NE(likelihood, "");
  EXPECT_EQ(likelihood.find(log), std::string::npos);
}

TEST(RunHistoryFigures, MarksEveryChangeOfTheDocumentsRates) {
  const std::vector<std::pair<double, std::string>> expected{
      {20, "rate 1e-05"},      {30, "rate 0.0001"},  {40, "rate 0.0005"},
      {50, "rate 0.001"},      {310, "rate 0.0005"}, {410, "rate 0.0001"},
      {700, "best validation"}};
  EXPECT_EQ(marks(history_of(ScheduleKind::kPublished)), expected);
}

TEST(RunHistoryFigures, MarksThePeakOfARateThatMovesAllTheTime) {
  const auto list = marks(history_of(ScheduleKind::kCosine));
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0], std::pair(50.0, std::string("rate 0.001")));
  EXPECT_EQ(list[1].second, "best validation");
}

}  // namespace
}  // namespace propagator::run
