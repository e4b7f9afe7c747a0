// Runs and files of others: whatever they say is shown, and none of it is run.

#include <nlohmann/json.hpp>

#include "command.h"
#include "propagator/core/files.h"
#include "propagator/core/process.h"
#include "testing.h"

namespace propagator {
namespace {

using nlohmann::json;
using testing::Outcome;
using testing::TemporaryFolder;
using testing::tiny;

class Hostile : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared = new TemporaryFolder;
    const auto outcome = testing::propagator(
        "train " + tiny() + " --runs " + shared->path().string() +
        " --name good -s train.max_steps=6 -s report.page=no");
    EXPECT_EQ(outcome.status, 0) << outcome.output;
  }
  static void TearDownTestSuite() { delete shared; }

  // A copy of a good run to write into.
  fs::path copy_run(const std::string& name) const {
    fs::copy(*shared / "good", folder / name, fs::copy_options::recursive);
    return folder / name;
  }
  // What runs in gnuplot, a shell or a browser if it is taken for code.
  std::vector<std::string> texts() const {
    const auto touch = "touch " + marker().string();
    return {"`" + touch + "`",
            "'; system('" + touch + "'); '",
            "''''`" + touch + "`",
            "\\'`" + touch + "`\\",
            "\".system(\"" + touch + "\").\"",
            "$(" + touch + ")",
            "| " + touch,
            "< " + touch,
            "@name @ARG0 {/Symbol a} x^{ _ ~ & %s%n 100% # é θ",
            "</script><script>alert(1)</script>",
            "<!--<script>",
            "\" onload=\"alert(1)"};
  }
  // The same after a newline, which ends a command of gnuplot.
  std::string lines() const {
    std::string all = "x";
    for (const auto& text : texts()) all += "\n" + text;
    return all + "\nsystem('touch " + marker().string() + "')\n";
  }
  fs::path marker() const { return folder / "run-by-a-file"; }

  void expect(const Outcome& outcome, int status, const std::string& text) {
    EXPECT_EQ(outcome.status, status) << outcome.output;
    EXPECT_NE(outcome.output.find(text), std::string::npos) << outcome.output;
    EXPECT_FALSE(fs::exists(marker())) << outcome.output;
  }
  void expect_shown(const Outcome& outcome, const fs::path& page) {
    expect(outcome, 0, page.string());
    EXPECT_EQ(outcome.output.find("gnuplot ends with"), std::string::npos)
        << outcome.output;
    const auto html = read_file(page);
    for (const char* code : {"<script>alert", "<!--", "\" onload="}) {
      EXPECT_EQ(html.find(code), std::string::npos) << code;
    }
  }

  static TemporaryFolder* shared;
  TemporaryFolder folder;
};
TemporaryFolder* Hostile::shared = nullptr;

void change(const fs::path& file, const std::function<void(json&)>& how) {
  auto content = json::parse(read_file(file));
  how(content);
  write_file_atomically(file, content.dump());
}

// Every line of metrics.jsonl with these terms.
void set_terms(const fs::path& run, const std::vector<std::string>& names) {
  std::string lines;
  for (const int step : {1, 2, 3}) {
    json line{{"kind", "train"}, {"step", step}, {"loss", 1.0 / step}};
    for (const auto& name : names) {
      line["terms"][name] = 1.0 / step;
      line["terms"]["weight of " + name] = 1.0 / step;
    }
    lines += line.dump() + "\n";
  }
  write_file_atomically(run / "metrics.jsonl", lines);
}

void set_name(const fs::path& run, const std::string& name) {
  auto config = read_file(run / "config.yaml");
  const size_t at = config.find("\nname: ") + 1;
  config.replace(at, config.find('\n', at) - at, "name: " + json(name).dump());
  write_file_atomically(run / "config.yaml", config);
}

// All that a page takes from result.json, with one text after the other.
void set_result(const fs::path& run, const std::vector<std::string>& texts) {
  size_t next = 0;
  const auto text = [&] { return texts[next++ % texts.size()]; };
  change(run / "result.json", [&](json& result) {
    for (const char* key : {"mode", "device", "machine", "code",
                            "config_sha256", "precision", "libtorch"}) {
      result[key] = text();
    }
    result["leak_audit"]["verdict"] = text();
    auto& part = result["evaluation"];
    part["remarks"] = {text()};
    part["table"] = std::vector(2, std::vector{text(), text()});
    part["metrics"][0]["name"] = text();
    auto& curves = part["curves"];
    curves["title"] = text();
    curves["x"]["label"] = text();
    curves["y"]["label"] = text();
    curves["series"][0]["name"] = text();
    curves["events"] = {{{"x", 1}, {"label", text()}}};
  });
}

TEST_F(Hostile, NamesOfARunAreShownNotRun) {
  const auto run = copy_run("a");
  set_terms(run, texts());
  set_name(run, texts()[1] + texts()[9]);
  for (const auto& some : {texts(), std::vector{lines()}}) {
    set_result(run, some);
    expect_shown(testing::propagator("report " + run.string()),
                 run / "report.html");
  }
  if (find_program("gnuplot").empty()) return;
  EXPECT_TRUE(fs::exists(run / "figures/loss-terms.svg"));
  EXPECT_TRUE(fs::exists(run / "figures/loss-weights.svg"));
  EXPECT_TRUE(fs::exists(run / "figures/error-per-frame.svg"));
}

TEST_F(Hostile, NamesOfComparedRunsAreShownNotRun) {
  std::string runs;
  for (size_t n = 0; n < texts().size(); ++n) {
    const auto run = copy_run(std::to_string(n));
    set_name(run, texts()[n]);
    set_result(run, {n == 0 ? lines() : texts()[n]});
    runs += " " + run.string();
  }
  const auto out = folder / "both";
  expect_shown(testing::propagator("report" + runs + " --out " + out.string()),
               out / "report.html");
  if (find_program("gnuplot").empty()) return;
  EXPECT_TRUE(fs::exists(out / "figures/metric.svg"));
  EXPECT_TRUE(fs::exists(out / "figures/curves.svg"));
}

TEST_F(Hostile, ControlCharactersInNamesAreRefused) {
  const auto run = copy_run("a");
  const auto report = "report " + run.string();
  set_name(run, lines());
  expect(testing::propagator(report), 2,
         "name: expected text in UTF-8 without control characters");
  set_name(run, "a");
  set_terms(run, {"mse", lines()});
  expect(testing::propagator(report), 3,
         "metrics.jsonl: line 1: a term has a control character in its name");
  expect(testing::propagator("train " + tiny() + " --runs " +
                             folder.path().string() +
                             " --name \"$(printf 'b\\n`x`')\""),
         2, "name: expected text in UTF-8 without control characters");
  // Nor do they reach the terminal.
  expect(testing::propagator("check " + tiny() +
                             " -s \"name=$(printf 'a\\033[2J')\""),
         2, "got 'a\ufffd[2J'");
}

TEST_F(Hostile, NamesOfFilesAndFoldersAreNotRun) {
  const std::string name = "a'`touch run-by-a-file`$(touch run-by-a-file)";
  fs::copy(tiny(), folder / (name + ".yaml"));
  const auto in_folder = [&](const std::string& arguments) {
    return testing::shell("cd " + folder.path().string() + " && " +
                          testing::program() + " " + arguments);
  };
  // Found by a pattern, so that no shell of ours reads it.
  expect(in_folder("train a*.yaml -s train.max_steps=6 -s report.page=yes"), 0,
         "report.html");
  expect(in_folder("report runs/a*"), 0, "report.html");
  expect(in_folder("data info a*.yaml"), 2, ".h5, .hdf5, .npz or .mat");
  fs::copy(folder / (name + ".yaml"), folder / (name + ".h5"));
  expect(in_folder("data info a*.h5"), 3, "is not an HDF5 file");
}

TEST_F(Hostile, FieldsOfAProblemHavePlainNames) {
  for (const auto& text : texts()) {
    write_file_atomically(
        folder / "p.yaml",
        "problem:\n  domain: x in [0, 1]\n  fields: " + json(text).dump() +
            "\n  equations:\n    - u_xx = 1\n"
            "  conditions:\n    - on x=0: u = 0\n");
    expect(testing::propagator("check " + (folder / "p.yaml").string()), 2,
           "problem.fields");
  }
}

TEST_F(Hostile, ResultsThatSayOtherThingsAreDamage) {
  const auto good = copy_run("a") / "result.json";
  const auto whole = read_file(good);
  const auto fails = [&](const char* at, const json& value) {
    write_file_atomically(good, whole);
    change(good, [&](json& result) { result[json::json_pointer(at)] = value; });
    expect(testing::propagator("report " + (folder / "a").string()), 3,
           good.string() + ": ");
  };
  fails("/leak_audit", json::object());
  fails("/training_seconds", "long");
  fails("/evaluation/curves/series/0/x", {1, 2});
  fails("/evaluation/table", json::array());
  write_file_atomically(good, "{\"mode\": " + std::string(1'000'000, '['));
  expect(testing::propagator("report " + (folder / "a").string()), 3,
         "it is not JSON");
}

TEST_F(Hostile, ARangeThatALogarithmDoesNotHaveIsDrawnWithoutOne) {
  const auto run = copy_run("a");
  change(run / "result.json", [](json& result) {
    for (const char* axis : {"x", "y"}) {
      result["evaluation"]["curves"][axis].update(
          {{"first", -5}, {"last", -1}, {"log", true}});
    }
  });
  expect_shown(testing::propagator("report " + run.string()),
               run / "report.html");
}

}  // namespace
}  // namespace propagator
