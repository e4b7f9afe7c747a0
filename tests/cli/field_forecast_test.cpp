// A file of fields of one's own, from the first command on.

#include <fstream>
#include <nlohmann/json.hpp>

#include "command.h"
#include "propagator/core/files.h"
#include "propagator/data/npz.h"
#include "propagator/data/tensor_file.h"
#include "testing.h"

namespace propagator {
namespace {

class VerbsFieldForecast : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }
  static testing::Outcome run(const std::string& arguments) {
    return testing::propagator(arguments);
  }
  void save(const std::string& name, const data::Tensors& tensors) const {
    data::save_tensors(path(name), {tensors, ""});
  }
  testing::Outcome train(const std::string& file,
                         const std::string& more = "") const {
    return run("train " + path(file) + " --runs " + path("runs") +
               " -s train.max_steps=3 -s model.width=4 -s data.given=2 " +
               more);
  }
  testing::TemporaryFolder folder_;
};

TEST_F(VerbsFieldForecast, OneCommandNamesOnlyTheFile) {
  save("mine.h5", {{"u", torch::rand({12, 6, 16, 16})}});
  const auto trained = train("mine.h5");
  ASSERT_EQ(trained.status, 0) << trained.output;
  EXPECT_NE(trained.output.find("12 cases of 6 frames on 16 x"),
            std::string::npos)
      << trained.output;
  EXPECT_NE(trained.output.find("linear (DMD)"), std::string::npos);
  EXPECT_NE(trained.output.find("leak audit: 0 leaks"), std::string::npos);
  // A run that is opened again has the units of its data.
  const auto tested =
      run("eval " + path("runs/mine") + " --json --out " + path("again.json"));
  ASSERT_EQ(tested.status, 0) << tested.output;
  const auto number = [&](const std::string& file) {
    std::ifstream stream(path(file));
    return nlohmann::json::parse(stream).at("nrmse").get<double>();
  };
  EXPECT_NEAR(number("again.json"), number("runs/mine/result.json"), 1e-6);
  save("first.h5", {{"fields", torch::rand({3, 2, 16, 16, 1})}});
  const auto predicted =
      run("predict " + path("runs/mine") + " --input " + path("first.h5") +
          " --output " + path("future.h5"));
  ASSERT_EQ(predicted.status, 0) << predicted.output;
  EXPECT_EQ(data::load_tensors(path("future.h5")).tensors.at("fields").sizes(),
            (std::vector<int64_t>{3, 6, 16, 16, 1}));
  const auto checked = run("check " + path("mine.h5"));
  EXPECT_EQ(checked.status, 0) << checked.output;
  EXPECT_NE(checked.output.find("12 cases of 6 frames"), std::string::npos);
}

// As numpy writes an array that nobody has named, in the shape of a first
// trial: everything else is guessed.
TEST_F(VerbsFieldForecast, AStrangersNpzNeedsNothingButItsName) {
  if (!data::has_npz()) GTEST_SKIP() << "built without libzip";
  const auto at = torch::arange(32) * (2 * M_PI / 32);
  const auto time = torch::arange(50).view({1, -1, 1, 1});
  const auto phase = torch::rand({200, 1, 1, 1}) * 6.28;
  const auto speed = torch::rand({200, 1, 1, 1}) * 0.5 - 0.25;
  save("strangers.npz",
       {{"arr_0", torch::sin(at.view({1, 1, -1, 1}) + phase - speed * time) *
                      torch::cos(at + 0.5 * phase)}});
  const auto trained =
      run("train " + path("strangers.npz") + " --runs " + path("runs") +
          " -s train.max_steps=1 -s train.validate_cases=16 "
          "-s eval.cases=2 -s report.page=no");
  ASSERT_EQ(trained.status, 0) << trained.output;
  EXPECT_NE(trained.output.find("200 cases of 50 frames on 32 x (periodic) x "
                                "32 y (periodic); channels u"),
            std::string::npos)
      << trained.output;
  const auto result =
      nlohmann::json::parse(read_file(folder_ / "runs/strangers/result.json"));
  EXPECT_EQ(result.at("forecast_frames"), 45);
  EXPECT_EQ(result.at("leak_audit").at("leaks"), 0);
}

TEST_F(VerbsFieldForecast, BadFilesAreAnswered) {
  const auto good = torch::rand({12, 6, 16});
  struct Bad {
    data::Tensors tensors;
    const char* more;
    int status;
    const char* says;
  };
  auto hole = good.clone();
  hole[11][5][3] = std::nan("");
  for (const auto& [tensors, more, status, says] :
       {Bad{{{"u", hole}}, "", 3, "case 11, frame 5"},
        {{{"u", good.narrow(0, 0, 1)}}, "", 3, "at least 10 cases"},
        {{{"u", good}, {"v", good}}, "", 3, "several arrays"},
        {{{"u", good}, {"t", torch::zeros({6})}}, "", 3, "'t' to rise"},
        {{{"u", good}}, "-s data.given=6", 2, "more than the 6"},
        {{{"u", good}}, "-s model.modes=9", 2, "at most 8 modes"},
        {{{"u", torch::rand({12, 6})}}, "", 3, "three axes or more"},
        {{{"u", good}, {"t", torch::tensor({0., 1., 3., 2., 4., 5.})}},
         "",
         3,
         "'t' to rise"},
        {{{"u", good}, {"t", torch::arange(5.)}}, "", 3, "6 numbers in 't'"},
        {{{"u", good}, {"k", torch::rand({12, 15})}},
         "-s 'data.constants=[k]'",
         3,
         "expected 'k' of shape (12, 16)"},
        {{{"u", good}}, "-s 'data.constants=[k]'", 2, "no k that does not"},
        {{{"u", good}},
         "-s model.mask=block -s eval.steps=5",
         2,
         "the 4 frames that it is trained to answer"},
        {{{"u", good}},
         "-s model.name=conv_lstm -s model.mask=block",
         2,
         "model.mask"}}) {
    save("bad.h5", tensors);
    const auto outcome = train("bad.h5", more);
    EXPECT_EQ(outcome.status, status) << outcome.output;
    EXPECT_NE(outcome.output.find(says), std::string::npos) << outcome.output;
    EXPECT_FALSE(std::filesystem::exists(path("runs/bad/checkpoints")));
  }
  EXPECT_EQ(train("none.h5").status, 2);
}

// A channel that never changes is no reason to fail, nor to blow it up.
TEST_F(VerbsFieldForecast, AConstantChannelStaysAsItIs) {
  auto fields = torch::rand({12, 6, 16, 2});
  fields.select(-1, 1).fill_(7);
  save("flat.h5", {{"u", fields}});
  const auto outcome = train("flat.h5", "--json");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
}

TEST_F(VerbsFieldForecast, AFileThatChangedIsRefused) {
  save("mine.h5", {{"u", torch::rand({12, 6, 16})}});
  ASSERT_EQ(train("mine.h5").status, 0);
  save("mine.h5", {{"u", torch::rand({12, 6, 16})}});
  const auto resumed =
      run("resume " + path("runs/mine") + " -s train.max_steps=5");
  EXPECT_EQ(resumed.status, 3) << resumed.output;
  EXPECT_NE(resumed.output.find("not the file that the run was trained on"),
            std::string::npos);
}

// From the file to `predict` and the page: what does not change in time is
// told.
TEST_F(VerbsFieldForecast, ConstantInputsComeWithTheFile) {
  const std::string file = data::has_npz() ? "heat.npz" : "heat.h5";
  save(file, {{"temperature", torch::rand({12, 6, 16, 16})},
              {"conductivity", torch::rand({12, 16, 16})}});
  const auto trained = train(file);
  ASSERT_EQ(trained.status, 0) << trained.output;
  EXPECT_NE(trained.output.find("; constant inputs conductivity;"),
            std::string::npos)
      << trained.output;
  const auto result =
      nlohmann::json::parse(read_file(folder_ / "runs/heat/result.json"));
  EXPECT_EQ(result.at("nrmse_per_channel").size(), 1u);
  const auto config = read_file(folder_ / "runs/heat/config.yaml");
  EXPECT_NE(config.find("conductivity"), std::string::npos);
  const auto page = read_file(folder_ / "runs/heat/report.html");
  EXPECT_NE(page.find("an input, which does not change"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(
      path("runs/heat/figures/constant-1-conductivity.gp")));
  const auto given = torch::rand({3, 2, 16, 16, 1}),
             told = torch::rand({3, 16, 16});
  const auto predict = [&](const data::Tensors& inputs) {
    save("first.h5", inputs);
    return run("predict " + path("runs/heat") + " --force --input " +
               path("first.h5") + " --output " + path("future.h5"));
  };
  const auto predicted = predict({{"fields", given}, {"conductivity", told}});
  ASSERT_EQ(predicted.status, 0) << predicted.output;
  EXPECT_NE(predicted.output.find("conductivity (3, 16, 16)"),
            std::string::npos);
  const auto missing = predict({{"fields", given}});
  EXPECT_EQ(missing.status, 3) << missing.output;
  EXPECT_NE(missing.output.find("conductivity"), std::string::npos);
  const auto wrong =
      predict({{"fields", given}, {"conductivity", told.narrow(1, 0, 8)}});
  EXPECT_EQ(wrong.status, 3) << wrong.output;
  EXPECT_NE(wrong.output.find("expected 'conductivity' of shape (3, 16, 16)"),
            std::string::npos)
      << wrong.output;
  // Another map is another file, although the temperatures are the same.
  auto content = data::load_tensors(path(file));
  content.tensors.at("conductivity")[3][2][1] += 0.5;
  data::save_tensors(path(file), content);
  const auto resumed =
      run("resume " + path("runs/heat") + " -s train.max_steps=5");
  EXPECT_EQ(resumed.status, 3) << resumed.output;
  const auto info = run("data info " + path(file));
  EXPECT_EQ(info.status, 0) << info.output;
}

// All later frames at once, streamed, resumed, explained, and not further than
// it was trained for.
TEST_F(VerbsFieldForecast, ABlockMaskAnswersAllFramesAtOnce) {
  save("mine.h5", {{"u", torch::rand({12, 6, 16})}});
  const auto trained =
      train("mine.h5",
            "-s model.name=space_time -s model.mask=block -s train.batch=4 "
            "-s model.layers=1 -s data.storage=stream");
  ASSERT_EQ(trained.status, 0) << trained.output;
  EXPECT_NE(trained.output.find("leak audit: 0 leaks in"), std::string::npos);
  const auto result =
      nlohmann::json::parse(read_file(folder_ / "runs/mine/result.json"));
  EXPECT_EQ(result.at("forecast_frames"), 4);
  const auto resumed =
      run("resume " + path("runs/mine") + " -s train.max_steps=5");
  EXPECT_EQ(resumed.status, 0) << resumed.output;
  const auto explained = run("explain " + path("runs/mine"));
  EXPECT_EQ(explained.status, 0) << explained.output;
  const auto page = read_file(folder_ / "runs/mine/explain.html");
  EXPECT_NE(page.find("repeats no step"), std::string::npos);
  EXPECT_NE(page.find("of the first that is forecast"), std::string::npos);
  const auto numbers =
      nlohmann::json::parse(read_file(folder_ / "runs/mine/explain.json"));
  EXPECT_FALSE(numbers.at("learned_step").contains("eigenvalues"));
  save("first.h5", {{"fields", torch::rand({3, 2, 16, 1})}});
  const auto predict = [&](const std::string& more) {
    return run("predict " + path("runs/mine") + " --force --input " +
               path("first.h5") + " --output " + path("future.h5") + more);
  };
  EXPECT_EQ(predict("").status, 0);
  EXPECT_EQ(data::load_tensors(path("future.h5")).tensors.at("fields").size(1),
            6);
  EXPECT_EQ(predict(" -s eval.steps=3").status, 0);
  const auto longer = predict(" -s eval.steps=9");
  EXPECT_EQ(longer.status, 2) << longer.output;
  EXPECT_NE(longer.output.find("the 4 frames that it is trained to answer"),
            std::string::npos)
      << longer.output;
}

// Fields of one to three axes and of two channels, one with a name that no
// file should have.
TEST_F(VerbsFieldForecast, ThePageShowsFieldsOfAnyShape) {
  const std::string evil = "v <script>alert(1)</script>/..";
  save("line.h5", {{"u", torch::rand({12, 6, 16})}});
  save("two.h5", {{"u", torch::rand({12, 6, 8, 8, 2})}});
  save("space.h5", {{"u", torch::rand({12, 6, 8, 8, 8, 1})}});
  struct Shown {
    const char* name;
    std::string more;
    std::vector<std::string> figures, texts;
  };
  for (const auto& [name, more, figures, texts] :
       {Shown{"line", "", {"fields-1-u", "spectra-1-u"}, {"downwards"}},
        Shown{"two",
              "-s 'data.axes=[case, time, x, y, channel]' "
              "-s 'data.channels=[u, \"" +
                  evil + "\"]' ",
              {"case-1-1-u", "spectra-1-u",
               "case-1-2-v--script-alert-1---script----"},
              {"v &lt;script&gt;", "case 1, u"}},
        Shown{"space",
              "-s 'data.axes=[case, time, x, y, z, channel]' ",
              {"case-1-1-u", "slices-1-u", "spectra-1-u"},
              {"on planes through it", "case 1, u, z = "}}}) {
    const auto outcome =
        train(std::string(name) + ".h5", more + "-s model.modes=3");
    ASSERT_EQ(outcome.status, 0) << outcome.output;
    const auto folder = std::filesystem::path(path("runs")) / name;
    const auto page = read_file(folder / "report.html");
    for (const auto& figure : figures) {
      EXPECT_TRUE(
          std::filesystem::exists(folder / "figures" / (figure + ".gp")))
          << figure;
    }
    for (const auto& text : texts) {
      EXPECT_NE(page.find(text), std::string::npos) << text;
    }
    EXPECT_EQ(page.find("<script>alert"), std::string::npos);
    EXPECT_NE(page.find("data-kind=\"fields\""), std::string::npos);
    // The result comes first: its sentence, the picture, then the table.
    const auto sentence = page.find("are off by");
    const auto lead = page.find("of cases that were not trained on");
    const auto table = page.find("linear (DMD)</td>");
    EXPECT_LT(sentence, lead);
    EXPECT_LT(lead, table);
    EXPECT_LT(table, page.find("figures/errors.*"));
    EXPECT_LT(page.find("figures/errors.*"), page.find("figures/loss.*"));
  }
}

}  // namespace
}  // namespace propagator
