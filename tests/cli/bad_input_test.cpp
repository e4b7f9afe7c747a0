// Every mistake a user can make ends in a clear message, the right exit code,
// and nothing half-written.

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "command.h"
#include "propagator/core/files.h"
#include "propagator/data/npz.h"
#include "propagator/data/tensor_file.h"
#include "testing.h"

namespace propagator {
namespace {

using testing::Outcome;
using testing::TemporaryFolder;
using testing::tiny;

std::vector<std::string> data_endings() {
  if (!data::has_npz()) return {"h5"};
  return {"h5", "npz"};
}

class BadInput : public ::testing::Test {
 protected:
  Outcome run(const std::string& arguments) {
    return testing::propagator(arguments);
  }
  Outcome train(const std::string& options, const std::string& name = "r") {
    return run("train " + tiny() + " --runs " + folder.path().string() +
               " --name " + name + " " + options);
  }
  void expect(const Outcome& outcome, int status, const std::string& text) {
    EXPECT_EQ(outcome.status, status) << outcome.output;
    EXPECT_NE(outcome.output.find(text), std::string::npos) << outcome.output;
  }
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder / name) << text;
    return (folder / name).string();
  }
  // A finished run to damage.
  fs::path good_run() {
    const auto outcome = train("-s train.max_steps=6", "good");
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    return folder / "good";
  }
  fs::path newest(const fs::path& run) {
    fs::path last;
    for (const auto& entry : fs::directory_iterator(run / "checkpoints")) {
      last = std::max(last, entry.path());
    }
    return last;
  }

  TemporaryFolder folder;
};

TEST_F(BadInput, UnknownKeyNamesPlaceAndNearestKey) {
  const auto file = write("a.yaml", "task: forecast\nmodel:\n  haeds: 4\n");
  const auto outcome = run("check " + file);
  expect(outcome, 2, file + ":3:10: unknown key model.haeds");
  expect(outcome, 2, "did you mean model.heads?");
  expect(train("-s train.bacth=3"), 2, "did you mean train.batch?");
  EXPECT_FALSE(fs::exists(folder / "r"));
}

TEST_F(BadInput, MistakesInListsNameTheirLine) {
  const auto file = write("p.yaml",
                          "problem:\n  domain: x in [0, 1]\n  fields: u\n"
                          "  equations:\n    - u_xx = 1\n"
                          "  conditions:\n    - on x=0: u = 0\n"
                          "    - on x=1: v = 0\n");
  expect(run("solve " + file), 2, file + ":8:7: problem.conditions");
}

TEST_F(BadInput, RunsStayInTheirFolder) {
  for (const std::string name : {"../r", "/r", "a/../../r"}) {
    expect(train("-s train.max_steps=1", name), 2,
           "--name: name: " + name + " is not inside the folder of all runs");
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST_F(BadInput, NamesTooLongForAFolder) {
  expect(train("-s train.max_steps=1", std::string(300, 'n')), 2,
         "--name: name: expected at most 255 bytes for the name of a folder, "
         "got 300");
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST_F(BadInput, FilesOfAnotherKind) {
  expect(run("check " + write("empty.yaml", "# nothing\n")), 2,
         "empty.yaml: the file has no keys");
  expect(run("solve " + tiny()), 2, "is of task forecast");
  expect(run("bench heat-step --config " + tiny() + " -s train.batch=0"), 2,
         "train.batch: 0, all cases, is not timed");
}

TEST_F(BadInput, WrongTypesAndBounds) {
  expect(train("-s train.batch=four"), 2,
         "train.batch: expected a whole number of at least 0, got 'four'");
  expect(train("-s train.batch=-1"), 2, "got '-1'");
  expect(train("-s schedule.lr=nan"), 2, "expected a number from 0 to 10");
  expect(train("-s model.mask=diagonal"), 2, "expected block | causal");
  expect(train("-s nonsense"), 2, "expected key=value");
  expect(run("check " + write("list.yaml", "model:\n  heads: [1, 2]\n")), 2,
         "expected a single value");
  expect(run("check " + write("broken.yaml", "model: {heads: 4\n")), 2,
         "broken.yaml:");
}

TEST_F(BadInput, ImpossibleSizes) {
  expect(train("-s model.heads=5"), 2, "expected a divisor of model.width");
  expect(train("-s model.visible=16"), 2, "fewer than plate.frames = 16");
  expect(train("-s train.batch=1000"), 2, "training cases");
  expect(train("-s plate.time_step=fixed -s plate.dt=100"), 2,
         "the largest stable step");
  EXPECT_FALSE(fs::exists(folder / "r" / "result.json"));
}

TEST_F(BadInput, UsageOfTheProgram) {
  expect(run(""), 2, "subcommand");
  expect(run("trian x"), 2, "trian");
  expect(run("train"), 2, "config is required");
  expect(run("eval x --split some"), 2, "some");
  expect(train("--time-limit soon"), 2, "such as 90s");
  expect(train("--device gpu"), 2, "expected auto, cpu, cuda");
  expect(train("--device cuda:99"), 5, "[device]");
  expect(run("--help"), 0, "propagator train forecast/quick");
  expect(run("train --help"), 0, "Examples:");
}

TEST_F(BadInput, ArgumentsNotExpectedAreNamedAsTyped) {
  expect(run("solve heat --out here"), 2, "not expected: --out here");
}

TEST_F(BadInput, MistypedOptionsNameTheNearest) {
  expect(run("train " + tiny() + " --devise cpu"), 2, "did you mean --device?");
  expect(run("eval x --spilt=test"), 2, "did you mean --split?");
  expect(run("data info x.h5 --jsn"), 2, "did you mean --json?");
  expect(run("info --quite"), 2, "did you mean --quiet?");
  expect(run("info --xyzzy"), 2, "--help explains");
}

TEST_F(BadInput, AFileWithoutArrays) {
  const auto file = (folder / "empty.h5").string();
  data::save_tensors(file, {});
  expect(run("data info " + file), 3, "has no array of numbers");
}

TEST_F(BadInput, CheckRefusesWhereTrainingWould) {
  expect(run("check " + tiny() + " --device cuda:99"), 5, "[device]");
  expect(run("check " + tiny() + " --device cpu --precision tf32"), 2,
         "tf32 needs a CUDA device");
  expect(run("check " + tiny() + " --time-limit soon"), 2, "such as 90s");
}

TEST_F(BadInput, OneModelAtATime) {
  for (const std::string verb : {"check", "solve"}) {
    expect(run(verb + " heat --model pinn -s model.name=kan"), 2,
           "--model pinn and -s model.name=kan contradict each other");
  }
  EXPECT_EQ(run("check heat --model kan -s model.name=kan").status, 0);
}

TEST_F(BadInput, KeysWithoutEffectAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"heat -s recipe=network -s train.clip=1", "train.clip has no effect"},
      {"heat -s recipe=network -s train.accumulate=2",
       "train.accumulate has no effect"},
      {"heat -s schedule.lr=0.1", "schedule.lr has no effect"},
      {"heat -s loss.initial=7", "loss.initial has no effect"},
      {"reaction -s recipe=network -s loss.boundary=7",
       "loss.boundary has no effect"},
      {"heat -s derivatives=published --model pinn",
       "derivatives has no effect"},
      {"heat -s optimizer.kind=adam -s schedule.warmup=161",
       "schedule.warmup is not over at step 160"},
      {"heat -s optimizer.adam_steps=5 -s schedule.warmup=6",
       "schedule.warmup is not over at step 5"},
  };
  for (const auto& [what, text] : cases) {
    expect(run(std::string("check ") + what), 0, text);
  }
  const auto good =
      run("check heat -s hard_constraints=no -s loss.initial=7 -s "
          "derivatives=published -s "
          "optimizer.adam_steps=9 -s train.clip=1 -s schedule.warmup=9");
  EXPECT_EQ(good.output.find("has no effect: "), std::string::npos)
      << good.output;
  EXPECT_EQ(good.output.find("is not over"), std::string::npos) << good.output;
  // How many steps 28 plates make is known when they are there.
  expect(train("-s train.max_steps=0 -s train.epochs=1 -s schedule.warmup=8"),
         0, "schedule.warmup is not over at step 7");
}

// More than any machine can address.
TEST_F(BadInput, ShortMemoryNamesKeysOfTheTask) {
  const auto outcome = run("check heat --model pinn -s model.width=20000000");
  expect(outcome, 5,
         "hint: ask for less at a time: points.per_axis, eval.per_axis, "
         "train.batch\n");
}

TEST_F(BadInput, BenchCountsHonestDerivatives) {
  for (const char* name : {"solve-gradient", "solve-closure"}) {
    expect(run(fmt::format("bench {} --per-axis 4 --repeats 1 -s "
                           "derivatives=published",
                           name)),
           2, "[bench] solve-gradient counts what honest derivatives take");
  }
}

TEST_F(BadInput, MissingFiles) {
  for (const char* verb :
       {"train", "check", "solve", "data generate -o a.h5"}) {
    expect(run(std::string(verb) + " none.yaml"), 2,
           "no configuration file none.yaml");
  }
  expect(run("resume " + (folder / "none").string()), 1, "no run at");
  expect(run("eval " + folder.path().string()), 1, "no config.yaml");
  expect(run("data info none.h5"), 1, "cannot read none.h5");
  expect(run("data info none.txt"), 2, ".h5, .hdf5, .npz or .mat");
  expect(train("-s data.file=none.h5"), 1, "cannot read none.h5");
}

TEST_F(BadInput, RunIsNotOverwritten) {
  good_run();
  const auto before = read_file(folder / "good" / "result.json");
  expect(train("-s seed=9", "good"), 2, "exists already");
  EXPECT_EQ(read_file(folder / "good" / "result.json"), before);
  EXPECT_EQ(train("-s train.max_steps=2 --force", "good").status, 0);
}

TEST_F(BadInput, ForceReplacesNothingButARun) {
  fs::create_directories(folder / "mine/checkpoints");
  write("mine/config.yaml", "model: something\n");
  write("mine/thesis.txt", "dear");
  expect(train("-s train.max_steps=2 --force", "mine"), 2,
         "--force replaces runs alone");
  EXPECT_EQ(read_file(folder / "mine/thesis.txt"), "dear");
}

TEST_F(BadInput, DamagedCheckpoints) {
  const auto run_path = good_run();
  const auto newest_path = newest(run_path);
  const auto model = newest_path / "model.safetensors";
  const auto good = read_file(model);
  const auto fails = [&](int status, const std::string& text) {
    expect(run("resume " + run_path.string()), status, text);
    expect(run("eval --last " + run_path.string()), status, text);
  };
  write_file_atomically(model, good.substr(0, good.size() / 2));
  fails(3, "model.safetensors is damaged");
  auto flipped = good;
  flipped[good.size() - 5] ^= 4;
  write_file_atomically(model, flipped);
  fails(3, "model.safetensors is damaged");
  fs::remove(model);
  fails(3, "is damaged: it has no model.safetensors");
  write_file_atomically(model, good);
  const auto sums = newest_path / "SHA256SUMS";
  const auto whole = read_file(sums);
  fs::remove(sums);
  fails(3, "is damaged: it has no SHA256SUMS");
  write_file_atomically(sums, whole);
  expect(run("check " + run_path.string()), 0, "good checkpoints");

  expect(run("resume " + run_path.string() + " --from step-7"), 1,
         "no checkpoint at step-7");
  EXPECT_EQ(run("eval " + run_path.string()).status, 0);
}

TEST_F(BadInput, DamagedRunsAreNotTakenForMistakes) {
  const auto path = good_run();
  const auto fails = [&](const std::string& text) {
    for (const char* verb : {"resume ", "eval ", "check "}) {
      expect(run(verb + path.string()), 3, path.string() + " is damaged: ");
      expect(run(verb + path.string()), 3, text);
    }
  };
  const auto config = read_file(path / "config.yaml");
  for (const std::string garbage : {"hello", "\x01\xff{[\x02", ""}) {
    write_file_atomically(path / "config.yaml", garbage);
    fails("has a copy of its config.yaml");
  }
  write_file_atomically(path / "config.yaml", config);
  // Else it would be found when the first checkpoint is written.
  fs::rename(path / "checkpoints", folder / "away");
  write_file_atomically(path / "checkpoints", "");
  fails("checkpoints is not a folder");
}

TEST_F(BadInput, WhatMadeARunCannotBeOverridden) {
  const auto path = good_run().string();
  for (const char* key : {"model.predicts=field", "seed=3", "data.cases=20",
                          "plate.frames=20", "model.heads=2"}) {
    for (const char* verb : {"check ", "eval ", "resume "}) {
      expect(run(verb + path + " -s " + key), 2, "belongs to the run");
    }
  }
  EXPECT_EQ(run("eval " + path + " -s eval.cases=2").status, 0);
  const auto config = read_file(fs::path(path) / "config.yaml");
  expect(run("resume " + path + " -s train.max_steps=3"), 2,
         "is of step 6, after the last of 3");
  EXPECT_EQ(read_file(fs::path(path) / "config.yaml"), config);
}

TEST_F(BadInput, ACheckpointOfAnotherRunIsRefused) {
  const auto path = good_run().string();
  ASSERT_EQ(train("-s train.max_steps=6 --seed 5", "other").status, 0);
  const auto other = newest(folder / "other").string();
  const auto result = read_file(fs::path(path) / "result.json");
  for (const char* verb : {"resume ", "eval "}) {
    expect(run(verb + path + " --from " + other), 2,
           "is of another run: it has seed=5");
  }
  EXPECT_EQ(read_file(fs::path(path) / "result.json"), result);
  EXPECT_EQ(run("eval " + path + " --from " + newest(path).string()).status, 0);
}

TEST_F(BadInput, AFinishedRunKeepsItsPrecision) {
  const auto path = good_run().string();
  const auto config = read_file(fs::path(path) / "config.yaml");
  expect(run("resume " + path + " --precision fp64"), 2,
         "all steps were trained in fp32, none is left for fp64");
  EXPECT_EQ(read_file(fs::path(path) / "config.yaml"), config);
}

TEST_F(BadInput, AnEditedConfigurationIsNotThatOfTheWeights) {
  const auto path = good_run();
  const auto config = read_file(path / "config.yaml");
  for (const auto& [from, to] :
       {std::pair{"feed_forward: 32", "feed_forward: 64"},
        std::pair{"layers: 2", "layers: 3"},
        std::pair{"frames: 16", "frames: 24"}}) {
    auto text = config;
    text.replace(text.find(from), std::string(from).size(), to);
    write_file_atomically(path / "config.yaml", text);
    for (const char* verb : {"resume ", "eval "}) {
      expect(run(verb + path.string()), 2, "is of another run: it has ");
    }
  }
}

// What was best by one loss says nothing of another.
TEST_F(BadInput, AnotherLossSearchesTheBestFromThere) {
  const auto path = good_run();
  const auto config = read_file(path / "config.yaml");
  const auto resume = "resume " + path.string() + " -s loss.mse=1000";
  expect(run(resume), 2, "all steps were trained with another loss.mse");
  EXPECT_EQ(read_file(path / "config.yaml"), config);
  // Its validations are far above the best before.
  expect(run(resume + " -s train.max_steps=12"), 0,
         "loss.mse is another, so the best model is searched from here on");
  const auto result = nlohmann::json::parse(read_file(path / "result.json"));
  EXPECT_GT(result.at("best_step"), 6);
}

// Weights may begin to change; those that are learned are of the network.
TEST_F(BadInput, HowTermsAreBalancedMayChange) {
  const auto start =
      " --runs " + folder.path().string() + " --name s --threads 1";
  const std::string small =
      " -s model.name=pinn -s model.width=8 -s points.per_axis=6 -s "
      "points.validation_per_axis=5 -s eval.per_axis=9 -s report.page=no";
  ASSERT_EQ(run("solve heat -s train.max_steps=3" + small + start).status, 0);
  const auto resume = "resume " + (folder / "s").string();
  expect(run(resume + " -s loss.balance=uncertainty -s train.max_steps=6"), 2,
         "cannot go on with another loss.balance");
  EXPECT_EQ(run(resume + " -s loss.balance=gradient_norm -s train.max_steps=6")
                .status,
            0);
  EXPECT_EQ(run("report " + (folder / "s").string()).status, 0);
}

TEST_F(BadInput, WhatCannotBeTestedIsNotTrained) {
  expect(run("check locate/corners-jitter -s detector.trigger=2"), 2,
         "classical fits need 3 hits");
  EXPECT_EQ(run("check locate/corners-jitter -s detector.trigger=2 -s "
                "eval.classical=0")
                .status,
            0);
  const auto path = good_run().string();
  expect(run("eval " + path + " --split all"), 2, "plates of training too");
  expect(run("explain " + path + " --work nan"), 2, "--work: expected");
}

TEST_F(BadInput, OutputsAreNotOverwrittenUnasked) {
  const auto path = good_run().string();
  const auto data = (folder / "data.h5").string();
  EXPECT_EQ(run("data generate " + tiny() + " --out " + data).status, 0);
  const auto before = read_file(data);
  expect(run("predict " + path + " -i " + data + " -o " + data), 2,
         "exists already");
  expect(run("eval " + path + " --out " + data), 2, "exists already");
  EXPECT_EQ(read_file(data), before);
}

TEST_F(BadInput, HugeInputsDoNotBecomeAForecast) {
  const auto path = good_run().string();
  const auto in = (folder / "in.h5").string();
  const auto out = (folder / "out.h5").string();
  const auto alpha = torch::full({2}, 0.05, torch::kFloat64);
  for (const auto& [size, status] : {std::pair{1e60, 3}, {1e38, 4}}) {
    const auto fields = torch::full({2, 3, 8, 8}, size, torch::kFloat64);
    data::save_tensors(in, {{{"fields", fields}, {"alpha", alpha}}, ""});
    const auto outcome = run("predict " + path + " -i " + in + " -o " + out);
    expect(outcome, status, "finite");
    EXPECT_FALSE(fs::exists(out));
  }
}

TEST_F(BadInput, NotANumberInData) {
  const auto file = (folder / "data.h5").string();
  EXPECT_EQ(run("data generate " + tiny() + " --out " + file).status, 0);
  auto content = data::load_tensors(file);
  content.tensors.at("fields")[7][3][2][1] = std::nan("");
  data::save_tensors(file, content);
  expect(train("-s data.file=" + file), 3, "case 7, frame 3, node (2, 1)");
  // One of its numbers, in the last column of its line.
  const auto info = run("data info " + file);
  expect(info, 0, "not finite");
  const auto line = info.output.substr(info.output.find("  fields "));
  const auto words = line.substr(0, line.find_first_of("\r\n"));
  EXPECT_EQ(words.substr(words.find_last_of(' ', words.find_last_not_of(' '))),
            " 1")
      << info.output;
  expect(train("-s data.file=" + file + " -s plate.frames=15"), 3,
         "expected 'fields' of shape");
  // What float32 cannot hold.
  auto& fields = content.tensors.at("fields");
  fields = fields.to(torch::kFloat64);
  fields[7][3][2][1] = 1e300;
  data::save_tensors(file, content);
  expect(train("-s data.file=" + file), 3, "case 7, frame 3, node (2, 1)");
  EXPECT_FALSE(fs::exists(folder / "r"));
  expect(run("data generate " + tiny() + " --out " + file +
             " --force -s data.file=" + file),
         2, "data.file is read");
}

TEST_F(BadInput, TooFewCasesNameTheFile) {
  const auto path = good_run().string();
  const auto file = (folder / "data.h5").string();
  EXPECT_EQ(run("data generate " + tiny() + " --out " + file).status, 0);
  auto content = data::load_tensors(file);
  const auto keep = [&](int64_t count) {
    for (auto& [name, values] : content.tensors) {
      values = values.slice(0, 0, count).clone();
    }
    data::save_tensors(file, content);
  };
  keep(5);
  expect(train("-s data.file=" + file), 3, file + ": expected at least 10");
  keep(0);
  const auto out = (folder / "out.h5").string();
  expect(run("predict " + path + " -i " + file + " -o " + out), 3, "(N > 0");
  EXPECT_FALSE(fs::exists(out));
}

// Plates need not come from our own solver.
TEST_F(BadInput, ATimeStepTooLongForOurSolverLeavesOutWhatNeedsIt) {
  const auto file = (folder / "data.h5").string();
  EXPECT_EQ(run("data generate " + tiny() + " --out " + file).status, 0);
  auto content = data::load_tensors(file);
  content.tensors.at("dt") *= 100;
  data::save_tensors(file, content);
  const auto outcome = train(
      "-s train.max_steps=4 -s report.page=yes -s "
      "data.file=" +
      file);
  expect(outcome, 0, "is left out");
  EXPECT_TRUE(fs::exists(folder / "r/report.html"));
}

TEST_F(BadInput, ADataFileThatHasChangedDoesNotGoOn) {
  const auto file = (folder / "data.h5").string();
  EXPECT_EQ(run("data generate " + tiny() + " --out " + file).status, 0);
  ASSERT_EQ(train("-s train.max_steps=4 -s data.file=" + file).status, 0);
  const auto resume = "resume " + (folder / "r").string() + " -s ";
  EXPECT_EQ(run(resume + "train.max_steps=6 --threads 1").status, 0);
  auto content = data::load_tensors(file);
  auto& fields = content.tensors.at("fields");
  fields = fields.flip(0).clone();
  data::save_tensors(file, content);
  const auto result = read_file(folder / "r/result.json");
  expect(run(resume + "train.max_steps=8"), 3,
         "is not the file that the run was trained on");
  EXPECT_EQ(read_file(folder / "r/result.json"), result);
}

TEST_F(BadInput, DamagedDataFiles) {
  for (const auto& ending : data_endings()) {
    const auto file = write("noise." + ending, std::string(3000, 'x'));
    expect(run("data info " + file), 3, "damaged");
  }
}

TEST_F(BadInput, NotesOfOtherProgramsAreShownAsTheyAre) {
  for (const auto& ending : data_endings()) {
    const auto file = folder / ("note." + ending);
    const std::string name = ending == "h5" ? "x\x1b[2J" : "x";  // zip has none
    const auto info = [&](const std::string& note) {
      data::save_tensors(file, {{{name, torch::ones(2)}}, note});
      auto outcome = run("data info " + file.string());
      expect(outcome, 0, ending == "h5" ? "x\ufffd[2J" : "x");
      return outcome;
    };
    expect(info(R"({"made_by": 7, "config": {"a": 1}})"), 0, "made by: ?");
    expect(info(R"({"made_by": "a\u001b[2J", "config": "k: 1\n"})"), 0,
           "made by: a\ufffd[2J\n\nk: 1\n");
    info("7");
    info("no JSON");
    info(std::string(60'000, '['));
  }
}

TEST_F(BadInput, FullDiskLeavesNothingHalfWritten) {
  // A file size limit stands in for a full disk: writes fail midway.
  const auto run_path = good_run();
  const auto result = read_file(run_path / "result.json");
  const auto outcome = testing::shell(
      "ulimit -f 8; " + testing::program() + " resume " + run_path.string() +
      " -s train.max_steps=60 -s train.checkpoint_every=6");
  expect(outcome, 1, "cannot write");
  expect(outcome, 1, "ulimit -f");
  EXPECT_EQ(read_file(run_path / "result.json"), result);
  expect(run("check " + run_path.string()), 0, "good checkpoints");
  for (const auto& entry : fs::directory_iterator(run_path / "checkpoints")) {
    EXPECT_FALSE(entry.path().filename().string().starts_with(".tmp-"));
  }
  for (const auto& ending : data_endings()) {
    const auto file = (folder / ("d." + ending)).string();
    const auto written =
        testing::shell("ulimit -f 8; " + testing::program() +
                       " data generate " + tiny() + " --out " + file);
    expect(written, 1, "cannot write");
    EXPECT_FALSE(fs::exists(file));
  }
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    EXPECT_FALSE(entry.path().filename().string().starts_with(".tmp-"))
        << entry.path();
  }
}

TEST_F(BadInput, ProblemsAreRefusedWhereTheyAreWrong) {
  struct Case {
    const char *equation, *condition, *text;
  };
  const Case cases[] = {
      {"u_t = u_xx", "at t=0: u = sine(x)", "unknown function"},
      {"u_t = (u_xx", "at t=0: u = 0", "never closed"},
      {"u_t = v_xx", "at t=0: u = 0", "v"},
      {"u_t = u_yy", "at t=0: u = 0", "y"},
      {"u_t = D*u_xx", "at t=0: u = 0", "D"},
      {"u_t = 4u_xx", "at t=0: u = 0", "hint: write 4*u_xx"},
      {"u_t = u_xx", "on x=0: u = 0", "at t=0"},
      {"u_t = u_xx", "at t=7: u = 0", "[0, 1]"},
  };
  for (const auto& c : cases) {
    const auto file = write(
        "p.yaml", fmt::format("task: solve\nproblem:\n  domain: ['x in [0, "
                              "1]', 't in [0, 1]']\n  fields: u\n  equations: "
                              "'{}'\n  conditions: '{}'\n",
                              c.equation, c.condition));
    const auto outcome = run("solve " + file + " --runs " +
                             folder.path().string() + " --name p");
    expect(outcome, 2, c.text);
    EXPECT_NE(outcome.output.find("p.yaml:"), std::string::npos)
        << outcome.output;
    EXPECT_FALSE(fs::exists(folder / "p"));
  }
}

TEST_F(BadInput, AModelThatIsTooRoughOrAnExactSolutionThatIsWrong) {
  const std::string start =
      "task: solve\nproblem:\n  domain: ['x in [0, 1]', 't in [0, 1]']\n"
      "  fields: u\n  equations: u_t = u_xxx\n  conditions:\n"
      "    - at t=0: u = 0\n    - on x=0: u = 0\n";
  const auto rough = write("a.yaml", start + "model: {name: kan}\n");
  expect(run("check " + rough), 2, "derivatives to order 2 only");
  const auto rough_face =
      write("f.yaml",
            "task: solve\nproblem:\n  domain: ['x in [0, 1]']\n"
            "  fields: u\n  equations: u_x = 1\n"
            "  conditions: ['on x=0: u_xxx = 0']\nmodel: {name: kan}\n");
  expect(run("check " + rough_face), 2, "and the problem needs u_xxx");
  const auto wrong = write("b.yaml", start + "  exact: u = x^3*t\n");
  expect(run("check " + wrong), 2, "does not solve the equations");
  expect(run("solve " + wrong + " --name w --runs " + folder.path().string()),
         2, "does not solve the equations");
  EXPECT_FALSE(fs::exists(folder / "w"));
}

TEST_F(BadInput, WindowsTooLongToTrainAreRefused) {
  expect(run("check heat -s points.window=65"), 2,
         "points.window: expected a whole number from 1 to 64");
}

TEST_F(BadInput, DivergenceNamesTermAndStep) {
  const auto outcome = train(
      "-s schedule.lr=10 -s schedule.kind=constant "
      "-s schedule.warmup=0 -s optimizer.eps=0 "
      "-s loss.physics=1e30 -s train.clip=0 --device cpu");
  expect(outcome, 4, "at step 1");
  expect(outcome, 4, "hint:");
}

}  // namespace
}  // namespace propagator
