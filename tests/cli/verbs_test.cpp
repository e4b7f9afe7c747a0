// The verbs as a user types them, one after the other on one run.

#include <sched.h>
#include <torch/cuda.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "command.h"
#include "propagator/core/files.h"
#include "propagator/core/sha256.h"
#include "propagator/data/csv.h"
#include "propagator/data/npz.h"
#include "propagator/data/tensor_file.h"
#include "testing.h"

namespace propagator {
namespace {

using testing::TemporaryFolder;
using testing::tiny;

nlohmann::json json_of(const std::string& arguments) {
  const auto outcome = testing::propagator("-q " + arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  return nlohmann::json::parse(outcome.output, nullptr, false);
}

class Verbs : public ::testing::Test {
 protected:
  std::string path(const std::string& name) { return (folder / name).string(); }
  std::string train(const std::string& options = "",
                    const std::string& name = "run") {
    const auto outcome =
        testing::propagator("-q train " + tiny() + " --runs " + path("") +
                            " --name " + name + " " + options);
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    return outcome.output;
  }
  TemporaryFolder folder;
};

TEST_F(Verbs, TrainEndsWithTableAuditAndFiles) {
  const auto output = train();
  for (const char* text :
       {"test MSE", "total loss", "last frame kept", "line to the steady state",
        "explicit Euler, alpha given", "explicit Euler, alpha fitted",
        "times below the better baseline", "leak audit: 0 leaks", "result:"}) {
    EXPECT_NE(output.find(text), std::string::npos) << output;
  }
  for (const char* name : {"config.yaml", "metrics.jsonl", "log.txt",
                           "result.json", "checkpoints"}) {
    EXPECT_TRUE(fs::exists(folder / "run" / name)) << name;
  }
  const auto result =
      nlohmann::json::parse(read_file(folder / "run/result.json"));
  EXPECT_EQ(result.at("mode"), "honest");
  EXPECT_EQ(result.at("leak_audit").at("leaks"), 0);
  EXPECT_EQ(result.at("precision"), "fp32");
  EXPECT_EQ(result.at("config_sha256").get<std::string>().size(), 64u);
  EXPECT_GT(result.at("training_seconds"), 0);
}

TEST_F(Verbs, EvalRepeatsTheResultExactly) {
  train();
  const auto result =
      nlohmann::json::parse(read_file(folder / "run/result.json"));
  const auto again = json_of("eval " + path("run") + " --json");
  EXPECT_EQ(again.at("mse"), result.at("mse"));
  EXPECT_EQ(again.at("config_sha256"), result.at("config_sha256"));
  const auto other =
      json_of("eval " + path("run") + " --json --split validation --out " +
              path("v.json"));
  EXPECT_EQ(other.at("split"), "validation");
  EXPECT_TRUE(fs::exists(path("v.json")));
}

// threads: 0 takes all cores that the process may use, or what OMP_NUM_THREADS
// asks for.
TEST_F(Verbs, AllCoresAreTakenUnlessFewerAreAllowed) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  int first = 0;
  while (!CPU_ISSET(first, &allowed)) ++first;
  const std::vector<std::pair<std::string, int>> ways{
      {"env -u OMP_NUM_THREADS ", CPU_COUNT(&allowed)},
      {"OMP_NUM_THREADS=3 ", 3},
      {fmt::format("env -u OMP_NUM_THREADS taskset -c {} ", first), 1}};
  for (const auto& [way, threads] : ways) {
    const auto outcome = testing::shell(
        way + testing::program() + " -q train " + tiny() +
        " -s train.max_steps=1 --device cpu --force --name run --runs " +
        path(""));
    ASSERT_EQ(outcome.status, 0) << way << outcome.output;
    const auto result =
        nlohmann::json::parse(read_file(folder / "run/result.json"));
    EXPECT_EQ(result.at("threads"), threads) << way;
  }
}

// As of before keys were renamed.
TEST_F(Verbs, RunsWithFormerKeysOpenAndGoOn) {
  train();
  const auto result =
      nlohmann::json::parse(read_file(folder / "run/result.json"));
  for (const auto& entry : fs::recursive_directory_iterator(folder / "run")) {
    if (entry.path().filename() != "config.yaml") continue;
    auto text = read_file(entry.path());
    for (const auto& [now, then] : {std::pair{"  adam_steps: ", "  handover: "},
                                    std::pair{"  max: ", "  most: "}}) {
      const auto at = text.find(now);
      ASSERT_NE(at, std::string::npos) << text;
      text.replace(at, std::string(now).size(), then);
    }
    // A checkpoint has the sums of its files.
    const auto sums = entry.path().parent_path() / "SHA256SUMS";
    if (fs::exists(sums)) {
      auto lines = read_file(sums);
      const auto before = sha256(read_file(entry.path()));
      lines.replace(lines.find(before), before.size(), sha256(text));
      write_file_atomically(sums, lines);
    }
    write_file_atomically(entry.path(), text);
  }
  const auto again = json_of("eval " + path("run") + " --json");
  EXPECT_EQ(again.at("mse"), result.at("mse"));
  EXPECT_EQ(again.at("config_sha256"), result.at("config_sha256"));
  const auto steps = result.at("steps").get<int64_t>() + 2;
  for (const char* key : {"optimizer.handover", "optimizer.adam_steps"}) {
    const auto outcome = testing::propagator(fmt::format(
        "resume {} -s train.max_steps={} -s {}=1", path("run"), steps, key));
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    EXPECT_EQ(outcome.output.find("is now called") != std::string::npos,
              std::string(key) == "optimizer.handover")
        << outcome.output;
  }
  const auto config = read_file(folder / "run/config.yaml");
  EXPECT_NE(config.find("  adam_steps: 1"), std::string::npos) << config;
  EXPECT_EQ(config.find("handover"), std::string::npos) << config;
}

TEST_F(Verbs, ResumeOfAFinishedRunKeepsItsNumbers) {
  train();
  const auto result =
      nlohmann::json::parse(read_file(folder / "run/result.json"));
  const auto again = json_of("resume " + path("run") + " --json");
  EXPECT_EQ(again.at("mse"), result.at("mse"));
  EXPECT_EQ(again.at("steps"), result.at("steps"));
}

TEST_F(Verbs, EveryMaskAndPrecisionTrains) {
  for (const char* options :
       {"-s model.mask=causal", "-s model.mask=causal -s model.predicts=change",
        "-s model.inputs=published -s eval.protocol=published",
        "-s model.mask=causal -s model.inputs=published "
        "-s eval.protocol=published",
        "-s model.embedding=published", "--precision fp64", "--precision bf16",
        "--precision bf16 -s model.mask=causal",
        "-s optimizer.kind=lamb -s train.accumulate=2",
        "-s optimizer.kind=muon",
        "-s data.storage=stream -s plate.configuration=challenge-2",
        "-s loss.normalisation=published -s loss.correlation=0.1"}) {
    const auto output =
        train(std::string("--force -s train.max_steps=6 ") + options);
    EXPECT_NE(output.find("leak audit"), std::string::npos) << options;
  }
}

TEST_F(Verbs, CudaTrainsToTheSameError) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const auto mse = [&](const std::string& options) {
    train("--force " + options);
    const auto text = read_file(folder / "run/result.json");
    return nlohmann::json::parse(text).at("mse").get<double>();
  };
  for (const std::string mask : {"block", "causal"}) {
    const auto model = " -s model.mask=" + mask;
    const double on_cpu = mse("--device cpu" + model);
    for (const std::string precision : {"fp32", "tf32", "bf16"}) {
      EXPECT_LT(mse("--device cuda --precision " + precision + model),
                3 * on_cpu)
          << precision << model;
    }
  }
}

TEST_F(Verbs, PublishedModelFailsTheAuditAndSaysSo) {
  const auto output =
      train("-s model.inputs=published -s eval.protocol=published");
  EXPECT_EQ(output.find("leak audit: 0 leaks"), std::string::npos) << output;
  EXPECT_NE(output.find("heat_former (published)"), std::string::npos);
}

TEST_F(Verbs, GenerateInfoPredictInBothFormats) {
  train("-s model.mask=causal");
  std::vector<std::string> endings{".h5"};
  if (data::has_npz()) endings.push_back(".npz");
  for (const auto& ending : endings) {
    const auto in = path("in" + ending), out = path("out" + ending);
    auto outcome = testing::propagator("-q data generate " + tiny() +
                                       " --out " + in + " -s data.cases=12");
    ASSERT_EQ(outcome.status, 0) << outcome.output;
    outcome = testing::propagator("data info " + in);
    EXPECT_NE(outcome.output.find("(12, 16, 8, 8)"), std::string::npos);
    EXPECT_EQ(
        testing::propagator("data generate " + tiny() + " --out " + in).status,
        2);  // never overwritten unasked
    outcome = testing::propagator("predict " + path("run") + " --input " + in +
                                  " --output " + out);
    ASSERT_EQ(outcome.status, 0) << outcome.output;
    const auto given = data::load_tensors(in).tensors.at("fields");
    const auto answer = data::load_tensors(out).tensors.at("fields");
    ASSERT_EQ(answer.sizes(), given.sizes());
    EXPECT_TRUE(torch::equal(answer.slice(1, 0, 3), given.slice(1, 0, 3)));
    EXPECT_FALSE(torch::equal(answer, given));
    // The same data from a file trains to the same weights.
    outcome =
        testing::propagator("data generate " + tiny() + " --force --out " + in);
    ASSERT_EQ(outcome.status, 0) << outcome.output;
    train("--force -s model.mask=causal -s data.file=" + in, "from-file");
    const auto a = nlohmann::json::parse(read_file(folder / "run/result.json"));
    const auto b =
        nlohmann::json::parse(read_file(folder / "from-file/result.json"));
    EXPECT_EQ(a.at("mse"), b.at("mse"));
  }
}

// A flow of few modes, for a moment.
std::string small_wake() {
  return " -s wake.modes=16 -s wake.rings=49 -s wake.outer_radius=18 -s "
         "wake.sponge_radius=9 -s wake.dt=0.02 -s wake.start=1 -s "
         "wake.snapshots=6 -s wake.columns=9 -s wake.rows=7";
}

TEST_F(Verbs, GenerateSimulatesAWake) {
  std::vector<std::string> endings{".h5"};
  if (data::has_npz()) endings.push_back(".npz");
  for (const auto& ending : endings) {
    const auto file = path("wake" + ending);
    const auto command = "data generate wake --out " + file + small_wake();
    auto outcome = testing::propagator(command);
    ASSERT_EQ(outcome.status, 0) << outcome.output;
    EXPECT_NE(outcome.output.find("drag"), std::string::npos);
    EXPECT_NE(outcome.output.find("has not settled"), std::string::npos);
    const auto content = data::load_tensors(file);
    EXPECT_EQ(content.tensors.at("p").sizes(), (std::vector<int64_t>{6, 7, 9}));
    EXPECT_EQ(content.tensors.at("x").size(0), 9);
    // Behind the cylinder the fluid is slower than beside it.
    const auto u = content.tensors.at("u")[5];
    EXPECT_LT(u[3][0].item<double>(), 0.5);
    EXPECT_GT(u[0][0].item<double>(), 0.9);
    const auto note = nlohmann::json::parse(content.note);
    EXPECT_EQ(note.at("numbers").at("reynolds"), 100);
    EXPECT_TRUE(note.at("numbers").contains("divergence_max"));
    EXPECT_NE(note.at("config").get<std::string>().find("rings: 49"),
              std::string::npos);
    outcome = testing::propagator("data info " + file);
    EXPECT_NE(outcome.output.find("reynolds: 100"), std::string::npos)
        << outcome.output;
    EXPECT_EQ(testing::propagator(command).status, 2);  // it is there
    EXPECT_EQ(testing::propagator(command + " --force").status, 0);
  }
}

TEST_F(Verbs, ATruthThatIsNotThereIsSimulatedOnce) {
  write_file_atomically(
      path("wake.yaml"),
      "task: reconstruct\nproblem:\n"
      "  domain: ['x in [1, 8]', 'y in [-2, 2]', 't in [0, 0.5]']\n"
      "  fields: [u, v, p]\n"
      "  equations: [u_t + u*u_x + v*u_y = -p_x, u_x + v_y = 0,\n"
      "              v_t + u*v_x + v*v_y = -p_y]\n"
      "truth:\n  file: " +
          path("sub/wake.h5") +
          "\n  simulator: wake\n  simulation: [wake.modes=16, "
          "wake.rings=49, wake.outer_radius=18, wake.sponge_radius=9, "
          "wake.dt=0.02, wake.start=1, wake.snapshots=6, "
          "wake.columns=9, wake.rows=7]\n"
          "sensors: {count: 40, fields: [u, v]}\n"
          "model: {name: siren, width: 8, layers: 1}\n"
          "points: {per_axis: 3}\ntrain: {max_steps: 2}\n"
          "report: {page: no}\n");
  auto outcome = testing::propagator("check " + path("wake.yaml"));
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("wake computes it first"), std::string::npos);
  const auto command = "train " + path("wake.yaml") + " --runs " +
                       path("runs") + " --force --name w ";
  outcome = testing::propagator(command);
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("wake computes it"), std::string::npos);
  EXPECT_NE(outcome.output.find("relative L2 of p"), std::string::npos);
  outcome = testing::propagator("check " + path("wake.yaml"));
  EXPECT_NE(outcome.output.find("40 sensors that train"), std::string::npos);
  outcome = testing::propagator(command);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(outcome.output.find("wake computes it"), std::string::npos);
  // What is there was computed with other keys.
  outcome = testing::propagator(command + "-s truth.simulation=wake.modes=18");
  EXPECT_EQ(outcome.status, 2) << outcome.output;
  EXPECT_NE(outcome.output.find("not made by wake with these keys"),
            std::string::npos);
  outcome = testing::propagator(command + "-s truth.simulator=wave");
  EXPECT_EQ(outcome.status, 2) << outcome.output;
  EXPECT_NE(outcome.output.find("did you mean wake?"), std::string::npos);
}

TEST_F(Verbs, BadWakesWriteNothing) {
  const auto wrong = [&](const std::string& setting, int status,
                         const std::string& text) {
    const auto outcome = testing::propagator(
        "data generate wake --out " + path("bad.h5") + small_wake() + setting);
    EXPECT_EQ(outcome.status, status) << outcome.output;
    EXPECT_NE(outcome.output.find(text), std::string::npos) << outcome.output;
  };
  wrong(" -s wake.reynolds=0", 2, "wake.reynolds");
  wrong(" -s wake.reynolds=1e9", 2, "wake.reynolds");
  wrong(" -s wake.reynold=100", 2, "did you mean wake.reynolds?");
  wrong(" -s wake.x_max=30", 2, "sponge_radius");
  wrong(" -s wake.x_min=0", 2, "outside the cylinder");
  wrong(" --precision fp32", 2, "fp64");
  wrong(" -s wake.dt=0.1 -s wake.start=60", 4, "smaller wake.dt");
  EXPECT_EQ(testing::propagator("data generate wake --out bad.txt").status, 2);
  const auto stopped =
      testing::shell("timeout -s INT 2 " + testing::program() +
                     " data generate wake --out " + path("stopped.h5"));
  EXPECT_NE(stopped.status, 0) << stopped.output;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST_F(Verbs, CheckAndValidateKnowSimulators) {
  auto outcome = testing::propagator("check wake --keys");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("wake.sponge_radius"), std::string::npos);
  outcome = testing::propagator("check wake -s wake.rings=65");
  EXPECT_NE(outcome.output.find("rings: 65"), std::string::npos);
  const auto keys = json_of("check wake --keys --json");
  EXPECT_EQ(keys[0].at("key"), "device");
  outcome = testing::propagator("data validate wake re-1000 --draft");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.output.find("did you mean re-100?"), std::string::npos)
      << outcome.output;
  EXPECT_EQ(testing::propagator("data validate awake --draft").status, 2);
}

// Histories of the user's own, of which nothing but the frames is known.
TEST_F(Verbs, AFieldThatIsNotHeatIsTrainedShownAndPredicted) {
  const auto file = path("mine.h5"), out = path("out.h5");
  data::save_tensors(
      file, {{{"fields", testing::random({20, 16, 8, 8}, "fields")}}, ""});
  const auto outcome =
      testing::propagator("train " + tiny() + " --runs " + path("") +
                          " --name run -s data.file=" + file +
                          " -s train.max_steps=6 -s report.page=yes");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("does not say that it is of heat"),
            std::string::npos)
      << outcome.output;
  EXPECT_NE(outcome.output.find("leak audit: 0 leaks"), std::string::npos);
  const auto page = read_file(path("run/report.html"));
  for (const char* text : {"heat-plate paper (published)", "temperature",
                           "y (m)", "total loss", "The learned propagator"}) {
    EXPECT_EQ(page.find(text), std::string::npos) << text;
  }
  const auto metrics = read_file(path("run/metrics.jsonl"));
  EXPECT_EQ(metrics.find("physics"), std::string::npos) << metrics;
  EXPECT_NE(metrics.find("initial"), std::string::npos) << metrics;
  const auto predicted = testing::propagator(
      "predict " + path("run") + " --input " + file + " --output " + out);
  ASSERT_EQ(predicted.status, 0) << predicted.output;
  EXPECT_EQ(data::load_tensors(out).tensors.at("fields").size(1), 16);
  EXPECT_EQ(
      testing::propagator("-q resume " + path("run") + " -s train.max_steps=8")
          .status,
      0);
}

TEST_F(Verbs, BenchMeasuresAndCounts) {
  const auto all = json_of(
      "bench heat-step data eval --json --repeats 3 --cases 5 --config " +
      tiny() + " -s train.batch=4 --device cpu");
  EXPECT_GT(all.at("operations_per_second"), 0);
  EXPECT_GT(all.at("bytes_per_second"), 0);
  ASSERT_EQ(all.at("benches").size(), 3u);
  for (const auto& bench : all.at("benches")) {
    EXPECT_GT(bench.at("fastest_ms"), 0);
    EXPECT_GE(bench.at("median_ms"), bench.at("fastest_ms"));
    EXPECT_GE(bench.at("slowest_ms"), bench.at("median_ms"));
    EXPECT_EQ(bench.at("repeats"), 3);
    EXPECT_GT(bench.at("bytes"), 0);
    EXPECT_GT(bench.at("share_of_limit"), 0);
  }
  const auto& step = all.at("benches")[0];
  // tiny: 4 plates of 16 frames of 64 nodes, 3 visible; width 32, hidden 32,
  // 4 heads, 2 layers. Keys and values of 12 tokens, both folded, 12 folded
  // scores and values for 64 tokens, and the feed-forward part.
  const double layer =
      12 * 4 * 32 * 32 + 64 * 2 * 32 * (4 * 3) + 64 * 2 * 32 * 32;
  const double embedding = 12 * 64 * 32, output = 64 * 32 * 64;
  EXPECT_EQ(step.at("operations"),
            2 * (2 * embedding + 3 * (2 * layer + output)));
  EXPECT_GT(step.at("floor_ms"), 0);
  EXPECT_GT(step.at("floor_ratio"), 0);
  EXPECT_EQ(all.at("benches")[1].at("cases"), 5);
  EXPECT_EQ(all.at("benches")[1].at("bytes"), 4 * 5 * 16 * 64);
}

TEST_F(Verbs, BenchComparesKernelsWithTheirReferences) {
  const auto all = json_of("bench kernels --json --repeats 3 --config " +
                           tiny() + " --device cpu");
  EXPECT_TRUE(all.at("benches").empty());
  std::map<std::string, nlohmann::json> rows;
  for (const auto& row : all.at("kernels")) {
    rows[row.at("name").get<std::string>()] = row;
    for (const char* key :
         {"ours_us", "reference_us", "bytes", "operations", "share_of_limit"}) {
      EXPECT_GT(row.at(key), 0) << row;
    }
    // What has no kernel here must not look as if it had.
    EXPECT_TRUE(row.at("has_kernel").get<bool>() ||
                row.at("ours_us") == row.at("reference_us"))
        << row;
  }
  EXPECT_EQ(rows.size(), 14u);
  EXPECT_TRUE(rows.at("plate_loss").at("has_kernel"));
  EXPECT_FALSE(rows.at("layer_norm").at("has_kernel"));
  // tiny: 4 plates of 16 frames of 64 nodes; width and hidden width 32, 4
  // heads. Tokens see 3 + 1 frames, later ones all up to themselves.
  EXPECT_EQ(rows.at("plate_loss").at("bytes"), 4 * 3 * 4 * 16 * 64);
  EXPECT_EQ(rows.at("product_up").at("operations"), 2 * 64 * 32 * 32);
  EXPECT_EQ(rows.at("causal_attention").at("operations"),
            4 * (4 * 4) * (3 * 4 + 16 * 17 / 2 - 6) * 8);
}

TEST_F(Verbs, BenchMeasuresGreenAttentionBesideThePlainOne) {
  const auto all = json_of(
      "bench green-attention --json --repeats 1 --cases 64 --device "
      "cpu");
  ASSERT_EQ(all.at("benches").size(), 2u);
  EXPECT_EQ(all.at("benches")[0].at("name"), "green-attention");
  EXPECT_EQ(all.at("benches")[1].at("name"), "green-attention-plain");
  for (const auto& bench : all.at("benches")) {
    EXPECT_EQ(bench.at("cases"), 64);
    EXPECT_GT(bench.at("median_ms"), 0);
    // 63 sensors see those before them; the global token all, and all it.
    EXPECT_EQ(bench.at("operations"), 14 * 256 * (63 * 62 / 2 + 127));
  }
}

TEST_F(Verbs, BenchRollsOutAndPrintsATable) {
  const auto outcome =
      testing::propagator("bench rollout --repeats 1 --device cpu --config " +
                          tiny() + " -s model.mask=causal");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  for (const char* text : {"rollout", "median", "bound by", "limits on cpu"}) {
    EXPECT_NE(outcome.output.find(text), std::string::npos) << outcome.output;
  }
  const auto unknown = testing::propagator("bench nonsense");
  EXPECT_EQ(unknown.status, 2) << unknown.output;
  const auto near = testing::propagator("bench heat-stp");
  EXPECT_EQ(near.status, 2);
  EXPECT_NE(near.output.find("did you mean heat-step?"), std::string::npos)
      << near.output;
}

TEST_F(Verbs, BenchMeasuresLossAndGradientOfAProblem) {
  const auto problem =
      fs::path(std::getenv("PROPAGATOR_CONFIGS")).parent_path() /
      "problems/wave.yaml";
  const auto all = json_of("bench --json --repeats 2 --device cpu --config " +
                           problem.string() +
                           " --per-axis 5 -s points.window=3 -s model.width=4 "
                           "-s model.feed_forward=6 -s model.hidden=8");
  ASSERT_EQ(all.at("benches").size(), 1u);  // the one for this task
  const auto& closure = all.at("benches")[0];
  EXPECT_EQ(closure.at("name"), "solve-gradient");
  EXPECT_EQ(closure.at("cases"), 25);
  EXPECT_GT(closure.at("fastest_ms"), 0);
  EXPECT_GE(closure.at("median_ms"), closure.at("fastest_ms"));
  EXPECT_GT(closure.at("bytes"), 0);
  EXPECT_FALSE(closure.contains("peak_memory_bytes"));
  // Windows of 3 tokens: 25 with u_x, u_t and the sum of u_xx and u_tt in 4
  // rows, and those of three faces, together, with u_t in 2 rows.
  const double rows = 3 * (25 * 4 + 3 * 5 * 2);
  const double block = 4 * (4 + 8 + 4) + 4 * 6 + 6 * 6 + 6 * 4;
  const double embedding = 2 * 4, head = 4 * 8 + 8 * 8 + 8;
  // Two products of two attentions, each for pairs of coefficients.
  const double attention = 2 * 2 * 4 * 3 * 3 * (25 * 9 + 3 * 5 * 3);
  EXPECT_EQ(
      closure.at("operations"),
      2 * (rows * (2 * embedding + 3 * (2 * block + head)) + 3 * attention));
  const auto other = testing::propagator(
      "bench heat-step --device cpu --config " + problem.string());
  EXPECT_EQ(other.status, 2) << other.output;
  EXPECT_NE(other.output.find("expected the task forecast, got solve"),
            std::string::npos)
      << other.output;
}

TEST_F(Verbs, BenchMeasuresTheNetworkOfARecipe) {
  const auto all = json_of(
      "bench solve-gradient --json --repeats 1 --device cpu "
      "--config solve/burgers-precise --per-axis 5");
  // 25 points with u_x, u_t and u_xx in 4 rows, and 5 on each of three faces,
  // through layers of 2 · 20 (whose inputs need no gradient), twice 20 · 20 and
  // 20 weights.
  const double rows = 25 * 4 + 3 * 5;
  EXPECT_EQ(all.at("benches")[0].at("operations"),
            rows * 2 * (2 * 40 + 3 * (400 + 400 + 20)));
}

// Radioactive decay: a problem of one variable that takes a second.
constexpr const char* kDecay = R"(task: solve
problem:
  domain: t in [0, 2]
  fields: u
  parameters: k = 1.5
  equations: u_t = -k*u
  conditions:
    - at t=0: u = 2
  exact: u = 2*exp(-k*t)
model: {name: pinn, width: 16, layers: 2}
train: {epochs: 30}
precision: fp64
)";

TEST_F(Verbs, SolveReachesTheExactSolutionAndPredictGivesDerivatives) {
  write_file_atomically(folder / "decay.yaml", kDecay);
  const auto result = json_of("solve " + path("decay.yaml") + " --runs " +
                              path("") + " --json -s report.page=no");
  EXPECT_LT(result.at("relative_l2"), 1e-5);
  EXPECT_LT(result.at("residual"), 1e-4);
  const auto t = torch::linspace(0, 2.25, 10, torch::kFloat64);
  data::save_tensors(path("t.h5"), {{{"t", t}}, ""});
  const auto outcome = testing::propagator(
      "predict " + path("decay") + " --input " + path("t.h5") + " --output " +
      path("u.h5") + " -s 'eval.quantities=[u_tt+u_t, u]'");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("1 of 10 points are outside of the domain"),
            std::string::npos)
      << outcome.output;
  const auto got = data::load_tensors(path("u.h5"));
  EXPECT_TRUE(
      testing::near(got.tensors.at("u"), 2 * torch::exp(-1.5 * t), {0, 1e-2}));
  const auto exact = 2 * 1.5 * 0.5 * torch::exp(-1.5 * t);  // k² u - k u
  EXPECT_TRUE(testing::near(got.tensors.at("u_tt+u_t"), exact, {0, 2e-2}));
  // Arrays of a grid come back as they were.
  data::save_tensors(path("grid.h5"), {{{"t", t.view({2, 5})}}, ""});
  ASSERT_EQ(testing::propagator("predict " + path("decay") + " --input " +
                                path("grid.h5") + " --output " + path("g.h5"))
                .status,
            0);
  const auto grid = data::load_tensors(path("g.h5")).tensors;
  EXPECT_TRUE(torch::equal(grid.at("t"), t.view({2, 5})));
  EXPECT_TRUE(testing::near(grid.at("u").flatten(), got.tensors.at("u"),
                            testing::kFloat64));
  EXPECT_EQ(grid.at("u").dim(), 2);
  // The same as CSV, where a name may have a comma.
  data::write_csv(path("t.csv"), {{"more", t}, {"t", t}});
  const auto as_csv = testing::propagator(
      "predict " + path("decay") + " --input " + path("t.csv") + " --output " +
      path("u.csv") + " -s 'eval.quantities=d(u, t) + u_tt'");
  ASSERT_EQ(as_csv.status, 0) << as_csv.output;
  EXPECT_NE(as_csv.output.find("t.csv: not used: more"), std::string::npos)
      << as_csv.output;
  const auto columns = data::read_csv(path("u.csv"));
  ASSERT_EQ(columns.size(), 2u);
  EXPECT_EQ(columns[0].name, "t");
  EXPECT_TRUE(torch::equal(columns[0].values, t));
  EXPECT_EQ(columns[1].name, "d(u, t) + u_tt");
  EXPECT_TRUE(testing::near(columns[1].values, got.tensors.at("u_tt+u_t"),
                            testing::kFloat64));
}

TEST_F(Verbs, SolveDrawsAPageAndEvalRepeatsIt) {
  const auto problem =
      fs::path(std::getenv("PROPAGATOR_CONFIGS")).parent_path() /
      "problems/heat.yaml";
  const auto outcome = testing::propagator(
      "-q solve " + problem.string() + " --model spformer-small --runs " +
      path("") + " --name h -s points.per_axis=8 -s train.epochs=2 " +
      "-s eval.per_axis=12");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  for (const char* text : {"relative L2", "on x=0: u", "report:"}) {
    EXPECT_NE(outcome.output.find(text), std::string::npos) << outcome.output;
  }
  const auto page = read_file(folder / "h/report.html");
  for (const char* text :
       {"field-u", "residual", "relative L2", "at t=0: u", "propagator eval"}) {
    EXPECT_NE(page.find(text), std::string::npos) << text;
  }
  EXPECT_EQ(page.find("propagator explain"), std::string::npos);
  const auto first = nlohmann::json::parse(read_file(folder / "h/result.json"));
  const auto again = json_of("eval " + path("h") + " --json");
  EXPECT_EQ(again.at("relative_l2"), first.at("relative_l2"));
  const auto split =
      testing::propagator("eval " + path("h") + " --split train");
  EXPECT_EQ(split.status, 2);
  EXPECT_NE(split.output.find("expected the split test, got train"),
            std::string::npos)
      << split.output;
  const auto report = testing::propagator("report " + path("h"));
  EXPECT_EQ(report.status, 0) << report.output;
  const auto paraview =
      testing::propagator("report " + path("h") + " --paraview " + path("v"));
  EXPECT_EQ(paraview.status, 0) << paraview.output;
  EXPECT_NE(paraview.output.find("u, u_exact, u_error, residual_1"),
            std::string::npos)
      << paraview.output;
  EXPECT_TRUE(fs::exists(path("v/frame_0011.vti")));  // eval.per_axis of them
  EXPECT_FALSE(fs::exists(path("v/frame_0012.vti")));
}

TEST_F(Verbs, LocateTrainsDrawsAndPredictsFromATableOfHits) {
  write_file_atomically(folder / "events.yaml",
                        "task: locate\n"
                        "data: {events: 256, validation: 64}\n"
                        "model: {width: 16, layers: 1, feed_forward: 16}\n"
                        "train: {max_steps: 40, batch: 32}\n"
                        "eval: {events: 200, classical: 50}\n"
                        "report: {cases: 1}\n");
  const auto result = json_of("train " + path("events.yaml") + " --runs " +
                              path("") + " --name e --json --threads 1");
  EXPECT_LT(result.at("classical").at("least_squares").at("median"), 1e-9);
  const auto page = read_file(folder / "e/report.html");
  for (const char* text : {"event-1", "pulls", "maximum likelihood"}) {
    EXPECT_NE(page.find(text), std::string::npos) << text;
  }
  write_file_atomically(folder / "hits.csv",
                        "event,sensor,time\n5,1,40\n5,2,41\n5,3,42\n5,8,45\n"
                        "9,2,30\n9,3,50\n9,4,45\n9,6,31\n");
  const auto outcome =
      testing::propagator("predict " + path("e") + " --input " +
                          path("hits.csv") + " --output " + path("out.csv"));
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const auto report = testing::propagator("report " + path("e"));
  EXPECT_EQ(report.status, 0) << report.output;
  const auto columns = data::read_csv(path("out.csv"));
  ASSERT_EQ(columns.size(), 7u);
  EXPECT_EQ(columns[0].name, "event");
  EXPECT_TRUE(
      torch::equal(columns[0].values, torch::tensor({5, 9}, torch::kFloat64)));
  EXPECT_EQ(columns[6].name, "sigma_z");
  EXPECT_GT(columns[6].values.min().item<double>(), 0);
  write_file_atomically(folder / "bad.csv", "event,sensor,time\n5,9,40\n");
  const auto bad =
      testing::propagator("predict " + path("e") + " --input " +
                          path("bad.csv") + " --output " + path("no.csv"));
  EXPECT_EQ(bad.status, 3) << bad.output;
  EXPECT_NE(bad.output.find("expected a sensor from 1 to 8, got 9"),
            std::string::npos)
      << bad.output;
  EXPECT_FALSE(fs::exists(folder / "no.csv"));
  write_file_atomically(
      folder / "far.csv",
      "event,sensor,time\n5,1,40\n5,2,41\n5,3,42\n5,8,1e30\n");
  const auto far =
      testing::propagator("predict " + path("e") + " --input " +
                          path("far.csv") + " --output " + path("no.csv"));
  EXPECT_EQ(far.status, 4) << far.output;
  EXPECT_FALSE(fs::exists(folder / "no.csv"));
}

TEST_F(Verbs, AProblemNeedsNoNameOfItsTask) {
  const std::string named = kDecay;
  write_file_atomically(folder / "bare.yaml", named.substr(named.find('\n')));
  const auto outcome = testing::propagator("check " + path("bare.yaml"));
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(outcome.output.find("task: solve"), 0u) << outcome.output;
}

TEST_F(Verbs, ListAndInfoSayWhatThereIs) {
  auto outcome = testing::propagator("list");
  EXPECT_NE(outcome.output.find("forecast"), std::string::npos);
  EXPECT_NE(outcome.output.find("heat_former"), std::string::npos);
  EXPECT_NE(outcome.output.find("forecast/tiny"), std::string::npos);
  EXPECT_NE(outcome.output.find("spformer-rope"), std::string::npos);
  EXPECT_NE(outcome.output.find("klein-gordon"), std::string::npos);
  const auto list = json_of("list --json");
  const auto names = [&](const char* part) {
    std::set<std::string> found;
    for (const auto& entry : list.at(nlohmann::json::json_pointer(part))) {
      EXPECT_FALSE(entry.at("help").get<std::string>().empty()) << entry;
      found.insert(entry.at("name"));
    }
    return found;
  };
  EXPECT_TRUE(names("/tasks").contains("forecast"));
  EXPECT_TRUE(names("/models/forecast").contains("heat_former"));
  EXPECT_TRUE(names("/models/solve").contains("spformer-rope"));
  EXPECT_TRUE(names("/problems").contains("klein-gordon"));
  EXPECT_TRUE(names("/configurations").contains("forecast/tiny"));
  EXPECT_TRUE(names("/benchmarks").contains("heat-step"));
  EXPECT_TRUE(names("/simulators").contains("wake"));
  const auto below = outcome.output.find("  flow:\n");
  EXPECT_NE(below, std::string::npos) << outcome.output;
  EXPECT_LT(below, outcome.output.find("\n    kovasznay ")) << outcome.output;
  EXPECT_EQ(outcome.output.find("others:"), std::string::npos)
      << outcome.output;
  for (const auto& problem : list.at("problems")) {
    if (problem.at("name") == "kovasznay") {
      EXPECT_EQ(problem.at("group"), "flow");
    }
  }
  const auto info = json_of("info --json");
  EXPECT_FALSE(info.at("blas").get<std::string>().empty());
  EXPECT_EQ(info.at("machines").size(), info.at("devices").size());
  outcome = testing::propagator("check " + tiny() + " --keys");
  EXPECT_NE(outcome.output.find("attention"), std::string::npos);
}

// Where a user says which kernels OpenBLAS takes, the program chooses none.
TEST_F(Verbs, InfoNamesTheKernelsOfOpenBlas) {
  const auto kernels = [&] {
    return json_of("info --json").at("blas_kernels").get<std::string>();
  };
  if (kernels().empty()) return;  // another BLAS
#if defined(__x86_64__)
  setenv("OPENBLAS_CORETYPE", "Prescott", 1);
  EXPECT_EQ(kernels(), "Prescott");
  unsetenv("OPENBLAS_CORETYPE");
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    EXPECT_NE(kernels(), "Prescott");
  }
#endif
}

TEST_F(Verbs, CheckAndDataInfoAsJson) {
  const auto checked = json_of("check " + tiny() + " --json --seed 3");
  EXPECT_EQ(checked.at("config").at("seed"), "3");
  EXPECT_GT(checked.at("parameters"), 0);
  EXPECT_EQ(checked.at("config_sha256").get<std::string>().size(), 64u);
  const auto keys = json_of("check " + tiny() + " --keys --json");
  const auto heads = std::find_if(
      keys.begin(), keys.end(),
      [](const auto& key) { return key.at("key") == "model.heads"; });
  ASSERT_NE(heads, keys.end());
  EXPECT_EQ(heads->at("type"), "integer");
  EXPECT_EQ(heads->at("min"), 1);

  train("");
  const auto run = json_of("check " + path("run") + " --json");
  const auto result =
      nlohmann::json::parse(read_file(folder / "run/result.json"));
  EXPECT_EQ(run.at("good_checkpoints").back().at("step"), result.at("steps"));

  data::save_tensors(path("a.h5"), {{{"x", torch::tensor({1.0, 4.0})}}, "hi"});
  const auto file = json_of("data info " + path("a.h5") + " --json");
  EXPECT_EQ(file.at("note"), "hi");
  const auto& array = file.at("arrays")[0];
  EXPECT_EQ(array.at("name"), "x");
  EXPECT_EQ(array.at("shape"), nlohmann::json::array({2}));
  EXPECT_EQ(array.at("mean"), 2.5);
}

TEST_F(Verbs, AStoppedRunIsUnfinishedNotFailed) {
  const auto outcome = testing::propagator(
      "solve convection --model siren --device cpu --name run --runs " +
      folder.path().string() +
      " --time-limit 1e-9 -s points.per_axis=5 -s eval.per_axis=8 "
      "-s eval.classical=no -s train.epochs=50");
  ASSERT_EQ(outcome.status, 75) << outcome.output;
  const auto test = testing::propagator("eval " + path("run"));
  EXPECT_EQ(test.status, 0) << test.output;
  EXPECT_NE(test.output.find("not finished: this is step "), std::string::npos)
      << test.output;
  EXPECT_EQ(test.output.find("has failed"), std::string::npos) << test.output;
  const auto done = testing::propagator("resume " + path("run") +
                                        " -s train.epochs=2 -s report.page=no");
  ASSERT_EQ(done.status, 0) << done.output;
  EXPECT_NE(done.output.find("this run has failed"), std::string::npos)
      << done.output;
}

}  // namespace
}  // namespace propagator
