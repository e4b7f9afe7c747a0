// `reproduce` as a user types it: rows, their files and their figures.

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "command.h"
#include "propagator/core/files.h"
#include "propagator/core/version.h"
#include "propagator/data/csv.h"
#include "propagator/train/checkpoint.h"
#include "testing.h"

namespace propagator {
namespace {

using testing::TemporaryFolder;

class Reproduce : public ::testing::Test {
 protected:
  std::string path(const std::string& name) { return (folder / name).string(); }
  nlohmann::json read(const std::string& name) {
    return nlohmann::json::parse(read_file(folder / name));
  }
  // Drafts, since the program under test may be of a changed tree.
  testing::Outcome tiny(const std::string& options) {
    return testing::propagator(
        "reproduce forecast/tiny --draft --runs " + path("rows") + " --out " +
        path("results") + " -s train.max_steps=3 -s report.page=no " + options);
  }
  TemporaryFolder folder;
};

TEST_F(Reproduce, ARowNamesACommitOrIsADraft) {
  const auto info = nlohmann::json::parse(
      testing::propagator("info --json 2>/dev/null").output);
  const std::string commit = info.at("commit");
  const auto outcome = testing::propagator(
      "reproduce forecast/tiny -s train.max_steps=3 --runs " + path("rows") +
      " --out " + path("results"));
  if (names_a_commit("0.1.0 " + commit)) {
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    EXPECT_EQ(outcome.output.find("draft"), std::string::npos);
    EXPECT_EQ(read("results/forecast/tiny.json").at("draft"), false);
  } else {
    EXPECT_EQ(outcome.status, 2) << outcome.output;
    EXPECT_NE(outcome.output.find("--draft"), std::string::npos);
    EXPECT_FALSE(fs::exists(folder / "rows"));  // before anything is trained
  }
  const auto draft = tiny("");
  EXPECT_EQ(draft.status, 0) << draft.output;
  EXPECT_NE(draft.output.find("forecast/tiny (draft)"), std::string::npos);
  const auto row = read("results/forecast/tiny.json");
  EXPECT_EQ(row.at("draft"), true);
  EXPECT_EQ(row.at("machine"), row.at("result").at("machine"));
  EXPECT_EQ(row.at("per_seed")[0].at("metrics").at(row.at("metric")),
            row.at("seeds")[0]);
}

TEST_F(Reproduce, ASecondTestIsOfOtherData) {
  ASSERT_EQ(tiny("--seeds 2").status, 0);
  const auto row = read("results/forecast/tiny.json");
  const auto second = row.at("second_test").at("seeds");
  ASSERT_EQ(second.size(), 2u);
  for (size_t n = 0; n < 2; ++n) {
    const double ours = row.at("seeds")[n], other = second[n];
    EXPECT_NE(ours, other);
    EXPECT_LT(std::abs(std::log(ours / other)), std::log(2.0)) << row;
  }
  ASSERT_EQ(tiny("--seeds 2").status, 0);  // from what is there
  EXPECT_EQ(read("results/forecast/tiny.json").at("second_test").at("seeds"),
            second);
}

// bench/compare asks the program before it measures.
TEST_F(Reproduce, ABenchNamesACommitToo) {
  const auto compare = [&](const std::string& commit) {
    fs::create_directories(folder / "bin");
    write_file_atomically(path("bin/propagator"),
                          "#!/bin/sh\n[ \"$2\" = info ] || exit 9\n"
                          "echo '{\"commit\": \"" +
                              commit + "\"}'\n");
    fs::permissions(folder / "bin/propagator", fs::perms::owner_all);
    return testing::shell("$PROPAGATOR_CONFIGS/../bench/compare --build " +
                          path("") + " --only locate-step-2");
  };
  for (const auto& [commit, reason] :
       {std::pair("c5750ba090ac+", "from changed sources (c5750ba090ac+)"),
        std::pair("", "nobody knows from which commit"),
        std::pair("c5750ba090ad", "bench/ is not that of")}) {
    const auto outcome = compare(commit);
    EXPECT_EQ(outcome.status, 2) << outcome.output;
    EXPECT_NE(outcome.output.find(reason), std::string::npos) << outcome.output;
    EXPECT_NE(outcome.output.find("--draft"), std::string::npos);
  }
}

// What is there of other code or another machine is neither taken into the row
// nor lost; only --retrain replaces it.
TEST_F(Reproduce, SeedsOfARowAreOfOneCodeAndMachine) {
  ASSERT_EQ(tiny("--seeds 2").status, 0);
  for (const auto& [key, other] :
       {std::pair("code", "0.1.0 c5750ba090ac"), std::pair("machine", "Z80"),
        std::pair("precision", "bf16"), std::pair("device", "cuda:0")}) {
    auto result = read("rows/tiny-seed-1/result.json");
    const auto ours = result.at(key);
    result[key] = other;
    write_file_atomically(path("rows/tiny-seed-1/result.json"), result.dump());
    const auto refused = tiny("--seeds 2");
    EXPECT_EQ(refused.status, 2) << key << refused.output;
    EXPECT_NE(refused.output.find("--retrain"), std::string::npos);
    EXPECT_EQ(read("rows/tiny-seed-1/result.json").at(key), other);
    const auto again = tiny("--seeds 2 --retrain");
    EXPECT_EQ(again.status, 0) << again.output;
    EXPECT_NE(again.output.find("tiny-seed-0 is there already"),
              std::string::npos)
        << again.output;
    EXPECT_EQ(read("rows/tiny-seed-1/result.json").at(key), ours) << key;
  }
}

TEST_F(Reproduce, AStoppedSeedGoesOnWithTheSameCodeOnly) {
  const std::string stop = "--time-limit 1e-9";
  ASSERT_EQ(tiny(stop).status, 75);
  const auto run = folder / "rows/tiny-seed-0";
  const auto on = tiny("");
  EXPECT_EQ(on.status, 0) << on.output;
  EXPECT_NE(on.output.find("resuming at step 1"), std::string::npos)
      << on.output;
  EXPECT_EQ(read("rows/tiny-seed-0/result.json").at("trained_by").size(), 1u);

  // As an older program, which did not say who trained, leaves it.
  fs::remove_all(run);
  ASSERT_EQ(tiny(stop).status, 75);
  const auto checkpoint = train::list_checkpoints(run / "checkpoints").back();
  auto saved = train::load_checkpoint(checkpoint);
  saved.state.erase("trained_by");
  fs::remove_all(checkpoint);
  train::save_checkpoint(checkpoint, saved);
  const auto refused = tiny("");
  EXPECT_EQ(refused.status, 2) << refused.output;
  EXPECT_NE(refused.output.find("an older program"), std::string::npos)
      << refused.output;
  const auto again = tiny("--retrain");
  EXPECT_EQ(again.status, 0) << again.output;
  EXPECT_EQ(read("rows/tiny-seed-0/result.json").at("trained_by").size(), 1u);
}

TEST_F(Reproduce, WritesTheRowAndTellsItsBand) {
  const auto reproduce = [&](const std::string& options) {
    return testing::propagator(
        "-q reproduce forecast/tiny --draft --seeds 3 --runs " + path("rows") +
        " --out " + path("results") + " -s train.max_steps=6 " + options);
  };
  const auto good = reproduce("-s reproduce.max=1");
  EXPECT_EQ(good.status, 0) << good.output;
  EXPECT_NE(good.output.find("within"), std::string::npos) << good.output;
  const auto row =
      nlohmann::json::parse(read_file(folder / "results/forecast/tiny.json"));
  EXPECT_EQ(row.at("row"), "forecast/tiny");
  EXPECT_EQ(row.at("mode"), "honest");
  EXPECT_TRUE(row.at("document").is_null());  // of another size
  auto seeds = row.at("seeds").get<std::vector<double>>();
  ASSERT_EQ(seeds.size(), 3u);
  std::ranges::sort(seeds);
  EXPECT_EQ(row.at("value"), seeds[1]);
  EXPECT_EQ(row.at("spread"), seeds[2] - seeds[0]);
  EXPECT_EQ(row.at("result").at("mse"), seeds[1]);
  // What is there is not trained again; a narrower band is missed.
  const auto bad = reproduce("-s reproduce.max=1e-9");
  EXPECT_EQ(bad.status, 6) << bad.output;
  EXPECT_NE(bad.output.find("outside"), std::string::npos) << bad.output;
  EXPECT_EQ(bad.output.find("trained"), std::string::npos) << bad.output;
  const auto other = reproduce("-s model.width=16");
  EXPECT_EQ(other.status, 2) << other.output;
  // Another row must not take the place of this one.
  const auto out = testing::propagator(
      "reproduce forecast/tiny -s train.max_steps=6 --runs " + path("rows"));
  EXPECT_EQ(out.status, 2);
  EXPECT_NE(out.output.find("with -s train.max_steps=6 this is not the row"),
            std::string::npos)
      << out.output;
  const auto two = testing::propagator(
      "reproduce forecast/tiny solve/wave --runs " + path("rows"));
  EXPECT_EQ(two.status, 2);
  EXPECT_NE(two.output.find("forecast/tiny and solve/wave are of two tasks"),
            std::string::npos)
      << two.output;
  const auto unknown = testing::propagator("reproduce forecast/tinny");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_NE(unknown.output.find("did you mean forecast/tiny?"),
            std::string::npos)
      << unknown.output;
}

TEST_F(Reproduce, ARowIsAboutTheMetricThatItNames) {
  const auto reproduce = [&](const std::string& metric) {
    return testing::propagator("-q reproduce forecast/tiny --runs " +
                               path("rows") + " --out " + path("results") +
                               " -s train.max_steps=3 -s 'reproduce.metric=" +
                               metric + "' -s reproduce.published=0.5");
  };
  const auto total = reproduce("total loss");
  ASSERT_EQ(total.status, 0) << total.output;
  const auto row =
      nlohmann::json::parse(read_file(folder / "results/forecast/tiny.json"));
  EXPECT_EQ(row.at("metric"), "total loss");
  EXPECT_EQ(row.at("value"), row.at("result").at("total_loss"));
  EXPECT_NE(row.at("value"), row.at("result").at("mse"));
  EXPECT_EQ(row.at("document"), 0.5);
  const auto unknown = reproduce("total los");
  EXPECT_EQ(unknown.status, 2) << unknown.output;
  EXPECT_NE(unknown.output.find("the test has no metric total los"),
            std::string::npos)
      << unknown.output;
  EXPECT_NE(unknown.output.find("it has MSE; "), std::string::npos)
      << unknown.output;
}

TEST_F(Reproduce, AnHonestRowThatLeaksEndsWith6) {
  const auto reproduce = [&] {
    return testing::propagator("-q reproduce forecast/tiny --runs " +
                               path("rows") + " --out " + path("results") +
                               " -s train.max_steps=3 -s reproduce.max=1");
  };
  ASSERT_EQ(reproduce().status, 0);
  const auto file = folder / "rows/tiny-seed-0/result.json";
  auto result = nlohmann::json::parse(read_file(file));
  result["leak_audit"]["leaks"] = 1;
  write_file_atomically(file, result.dump());
  const auto outcome = reproduce();
  EXPECT_EQ(outcome.status, 6) << outcome.output;
  EXPECT_NE(outcome.output.find(
                "forecast/tiny calls itself honest and leaks: it has failed"),
            std::string::npos)
      << outcome.output;
}

TEST_F(Reproduce, AResultThatLacksItsTimeIsAnErrorOfOurs) {
  const std::string command = "-q reproduce forecast/tiny --runs " +
                              path("rows") + " --out " + path("results") +
                              " -s train.max_steps=3";
  ASSERT_EQ(testing::propagator(command).status, 0);
  const auto file = folder / "rows/tiny-seed-0/result.json";
  auto result = nlohmann::json::parse(read_file(file));
  result.erase("training_seconds");
  write_file_atomically(file, result.dump());
  const auto outcome = testing::propagator(command);
  EXPECT_EQ(outcome.status, 3) << outcome.output;
  EXPECT_NE(outcome.output.find("has no training_seconds"), std::string::npos)
      << outcome.output;
}

TEST_F(Reproduce, SeedsBeginWhereTheyAreAskedTo) {
  const auto done = testing::propagator(
      "-q reproduce forecast/tiny --draft --seed 7 --seeds 2 --runs " +
      path("rows") + " --out " + path("results") + " -s train.max_steps=3");
  ASSERT_EQ(done.status, 0) << done.output;
  const auto row =
      nlohmann::json::parse(read_file(folder / "results/forecast/tiny.json"));
  EXPECT_EQ(row.at("seeds").size(), 2u);
  EXPECT_NE(row.at("seeds")[0], row.at("seeds")[1]);
  EXPECT_GE(row.at("result").at("seed"), 7);
  EXPECT_NE(row.at("command").get<std::string>().find("--seed 7"),
            std::string::npos);
  for (const char* run : {"rows/tiny-seed-7", "rows/tiny-seed-8"}) {
    EXPECT_TRUE(fs::exists(folder / run / "result.json")) << run;
  }
}

TEST_F(Reproduce, LabelsWhatItTrainedNotWhatTheFileSays) {
  const auto done =
      testing::propagator("-q reproduce forecast/tiny --draft --runs " +
                          path("rows") + " --out " + path("results") +
                          " -s train.max_steps=6 -s model.inputs=published"
                          " -s eval.protocol=published");
  ASSERT_EQ(done.status, 0) << done.output;
  const auto row =
      nlohmann::json::parse(read_file(folder / "results/forecast/tiny.json"));
  EXPECT_EQ(row.at("mode"), "published");
  EXPECT_EQ(row.at("result").at("mode"), "published");
}

TEST_F(Reproduce, SolveHasTheDocumentsNumberAndEverySeed) {
  const auto reproduce = [&](const std::string& rows) {
    return testing::propagator(
        "-q reproduce '" + rows + "' --draft --device cpu --seeds 2 --runs " +
        path("rows") + " --out " + path("results") +
        " -s points.per_axis=5 -s train.epochs=1 -s eval.per_axis=8 "
        "-s report.page=no");
  };
  const auto outcome = reproduce("solve/reaction-kan");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("2 of them failed"), std::string::npos)
      << outcome.output;
  const auto row = nlohmann::json::parse(
      read_file(folder / "results/solve/reaction-kan.json"));
  EXPECT_EQ(row.at("document"), 0.699);
  EXPECT_EQ(row.at("metric"), "relative L2");
  EXPECT_EQ(row.at("seeds").size(), 2u);
  EXPECT_EQ(row.at("failed"), 2);  // after one step
  EXPECT_GT(row.at("result").at("classical").at("seconds"), 0);

  const auto part = reproduce("solve/reaction-ka*");  // what is there already
  EXPECT_EQ(part.status, 0) << part.output;
  EXPECT_NE(part.output.find("solve/reaction-kan"), std::string::npos);
  const auto nothing = reproduce("solve/reactor*");
  EXPECT_EQ(nothing.status, 2) << nothing.output;
  EXPECT_NE(nothing.output.find("no row solve/reactor*"), std::string::npos)
      << nothing.output;
}

// The blocks of a figure's data: their titles and numbers.
std::map<std::string, std::vector<double>> blocks_of(const fs::path& file) {
  std::map<std::string, std::vector<double>> blocks;
  std::istringstream lines(read_file(file));
  std::string title;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# [")) {
      title = line.substr(line.find(']') + 1);
      title.erase(0, title.find_first_not_of(' '));
      continue;
    }
    std::istringstream numbers(line);
    for (double number; numbers >> number;) blocks[title].push_back(number);
  }
  return blocks;
}

TEST_F(Reproduce, SolveDrawsTheFieldAndErrorOfTheMedianSeed) {
  const auto reproduce = [&](const std::string& options) {
    return testing::propagator("reproduce " + options +
                               " --draft --device cpu --runs " + path("rows") +
                               " --out " + path("results") +
                               " -s points.per_axis=5 -s train.epochs=1 "
                               "-s eval.per_axis=8 -s reproduce.max=9 "
                               "-s eval.classical=no -s report.page=no");
  };
  const auto outcome = reproduce("solve/reaction-kan --seeds 3");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const auto row = nlohmann::json::parse(
      read_file(folder / "results/solve/reaction-kan.json"));
  const auto seed = row.at("result").at("seed").get<int64_t>();
  EXPECT_EQ(row.at("value"), row.at("seeds")[static_cast<size_t>(seed)]);

  // What that seed's run answers at the cells: x from the top, t to the right.
  constexpr double kPi = 3.14159265358979323846;
  const auto centres = (torch::arange(8, torch::kFloat64) + 0.5) / 8;
  const auto grid = torch::meshgrid({2 * kPi * centres.flip(0), centres}, "ij");
  const auto x = grid[0].reshape({-1}), t = grid[1].reshape({-1});
  data::write_csv(path("cells.csv"), {{"x", x}, {"t", t}});
  const auto run = fmt::format("rows/reaction-kan-seed-{}", seed);
  const auto predicted =
      testing::propagator("-q predict " + path(run) + " --device cpu --input " +
                          path("cells.csv") + " --output " + path("u.csv"));
  ASSERT_EQ(predicted.status, 0) << predicted.output;
  const auto answer = data::read_csv(path("u.csv")).back().values;
  const auto first = (-(x - kPi).square() / (2 * kPi * kPi / 16)).exp();
  const auto grown = first * (5 * t).exp();
  const auto exact = grown / (grown + 1 - first);

  const auto figures = folder / "results/figures";
  auto fields = blocks_of(figures / "solve-reaction-kan-1.dat");
  auto errors = blocks_of(figures / "solve-reaction-kan-2.dat");
  const auto remark =
      fmt::format("relative L2 {:.2e}", row.at("value").get<double>());
  constexpr testing::Tolerance kFiveDigits{1e-4, 1e-6};
  for (const auto& [block, expected] :
       {std::pair(fields["exact"], exact),
        std::pair(fields["reaction-kan"], answer),
        std::pair(errors[remark], (answer - exact).abs())}) {
    ASSERT_EQ(block.size(), 64u);
    EXPECT_TRUE(testing::near(torch::tensor(block, torch::kFloat64), expected,
                              kFiveDigits));
  }

  // Several models are one picture, each once; a run that has lost its weights
  // is named.
  const std::string rows =
      "solve/reaction-pinn solve/reaction-pinnsformer 'solve/reaction-pinns*' "
      "solve/reaction-pinn-mamba --seeds 1";
  ASSERT_EQ(reproduce(rows).status, 0);
  fields = blocks_of(figures / "solve-reaction-1.dat");
  EXPECT_EQ(fields.size(), 4u);
  for (const char* name : {"exact", "reaction-pinn", "reaction-pinn-mamba",
                           "reaction-pinnsformer"}) {
    EXPECT_EQ(fields[name].size(), 64u) << name;
  }
  fs::remove_all(folder / "rows/reaction-pinn-seed-0/checkpoints");
  const auto lost = reproduce(rows);
  EXPECT_EQ(lost.status, 0) << lost.output;
  EXPECT_NE(
      lost.output.find("no picture of " + path("rows/reaction-pinn-seed-0")),
      std::string::npos)
      << lost.output;
  fields = blocks_of(figures / "solve-reaction-1.dat");
  EXPECT_EQ(fields.count("reaction-pinn"), 0u);
}

}  // namespace
}  // namespace propagator
