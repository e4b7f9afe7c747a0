#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

#include "command.h"
#include "propagator/data/tensor_file.h"
#include "testing.h"

namespace propagator {
namespace {

class VerbsGenerate : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const {
    return (folder_.path() / name).string();
  }
  testing::Outcome train(const std::string& name, const std::string& more) {
    return testing::propagator(
        "train " + std::string(std::getenv("PROPAGATOR_CONFIGS")) +
        "/density/lecture.yaml --runs " + folder_.path().string() + " --name " +
        name +
        " --device cpu -s data.samples=400 -s data.validation=100 -s "
        "eval.samples=200 -s model.width=8 -s train.epochs=1 -s "
        "train.batch=100 "
        "-s report.page=no " +
        more);
  }
  static std::string text_of(const std::string& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static int64_t lines_of(const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  }

  testing::TemporaryFolder folder_;
};

TEST_F(VerbsGenerate, WritesSamplesThatFollowTheSeed) {
  ASSERT_EQ(train("run", "").status, 0);
  const auto draw = [&](const std::string& name, const std::string& more) {
    return testing::propagator("generate " + path("run") + " -o " + path(name) +
                               " " + more);
  };
  const auto first = draw("a.csv", "--count 30");
  ASSERT_EQ(first.status, 0) << first.output;
  EXPECT_NE(first.output.find("30 new cases of x1, x2"), std::string::npos)
      << first.output;
  ASSERT_EQ(draw("b.csv", "--count 30").status, 0);
  ASSERT_EQ(draw("c.csv", "--count 30 --seed 1").status, 0);
  const auto text = text_of(path("a.csv"));
  EXPECT_NE(text.find("x1,x2\n"), std::string::npos) << text;
  EXPECT_GE(lines_of(text), 31);
  EXPECT_EQ(text, text_of(path("b.csv")));
  EXPECT_NE(text, text_of(path("c.csv")));
  EXPECT_EQ(draw("a.csv", "").status, 2);  // it is there
  EXPECT_EQ(draw("d.csv", "--given " + path("a.csv")).status, 2);
  EXPECT_EQ(draw("d.png", "").status, 2);
  EXPECT_EQ(draw("d.csv", "--count 0").status, 2);
}

TEST_F(VerbsGenerate, DrawsForEachRowThatIsGiven) {
  {
    std::ofstream table(path("table.csv"));
    table << "x,y\n";
    for (int n = 0; n < 200; ++n) {
      table << 0.01 * n << ',' << 0.02 * n + 0.001 * (n % 7) << '\n';
    }
    std::ofstream given(path("given.csv"));
    given << "x\n0.5\n1.5\n";
  }
  ASSERT_EQ(
      train("run", "-s target.name=none -s data.file=" + path("table.csv") +
                       " -s 'data.variables=[y]' -s 'data.given=[x]'")
          .status,
      0);
  const auto draw = [&](const std::string& more) {
    return testing::propagator("generate " + path("run") + " -o " +
                               path("new.csv") + " " + more);
  };
  EXPECT_EQ(draw("").status, 2);  // nothing is given
  const auto done = draw("--count 3 --given " + path("given.csv"));
  ASSERT_EQ(done.status, 0) << done.output;
  const auto text = text_of(path("new.csv"));
  EXPECT_NE(text.find("x,y\n"), std::string::npos) << text;
  EXPECT_GE(lines_of(text), 7);
}

// Forecasts with a variance: trajectories, alone and of several runs.
class VerbsTrajectories : public VerbsGenerate {
 protected:
  testing::Outcome train_bands(const std::string& name,
                               const std::string& more = "") {
    return testing::propagator("train " + testing::tiny() + " --runs " +
                               folder_.path().string() + " --name " + name +
                               " --device cpu -s train.max_steps=20 -s "
                               "loss.frames=heteroscedastic " +
                               more);
  }
  testing::Outcome draw(const std::string& arguments) {
    return testing::propagator("generate " + path("run") + " " + arguments);
  }
  torch::Tensor fields_of(const std::string& name) const {
    return data::load_tensors(path(name)).tensors.at("fields");
  }
  static bool says(const testing::Outcome& outcome, const std::string& text) {
    return outcome.output.find(text) != std::string::npos;
  }
};

TEST_F(VerbsTrajectories, FollowTheSeedAndGoOnFromWhatIsGiven) {
  const auto trained = train_bands("run");
  ASSERT_EQ(trained.status, 0) << trained.output;
  EXPECT_TRUE(says(trained, "intervals of 50, 90 and 95 %")) << trained.output;
  EXPECT_NE(text_of(path("run/calibration.safetensors")), "");
  const auto first = draw("-o " + path("a.npz") + " --count 3 --cases 2");
  ASSERT_EQ(first.status, 0) << first.output;
  EXPECT_TRUE(says(first, "3 trajectories of 2 cases, fields (2, 3, 16, 8, 8)"))
      << first.output;
  ASSERT_EQ(draw("-o " + path("b.npz") + " --count 3 --cases 2").status, 0);
  const auto drawn = fields_of("a.npz");
  EXPECT_EQ(drawn.sizes().vec(), (std::vector<int64_t>{2, 3, 16, 8, 8}));
  EXPECT_TRUE(torch::equal(drawn, fields_of("b.npz")));
  ASSERT_EQ(
      draw("-o " + path("c.npz") + " --count 3 --cases 2 --seed 1").status, 0);
  EXPECT_FALSE(torch::equal(drawn, fields_of("c.npz")));
  // From a file of first frames, as `predict` takes them.
  const auto data = testing::propagator("data generate " + testing::tiny() +
                                        " --out " + path("plates.h5"));
  ASSERT_EQ(data.status, 0) << data.output;
  const auto given =
      draw("-o " + path("d.h5") + " --count 1 --given " + path("plates.h5"));
  ASSERT_EQ(given.status, 0) << given.output;
  EXPECT_TRUE(says(given, "fields (40, 1, 16, 8, 8)")) << given.output;
}

TEST_F(VerbsTrajectories, RefuseWhatCannotBeDrawn) {
  ASSERT_EQ(train_bands("run", "-s loss.frames=mse").status, 0);
  const auto plain = draw("-o " + path("a.npz"));
  EXPECT_EQ(plain.status, 2);
  EXPECT_TRUE(says(plain, "predicts no variance")) << plain.output;
  EXPECT_EQ(draw("-o " + path("a.npz") + " --count 0").status, 2);
  EXPECT_EQ(draw("-o " + path("a.csv")).status, 2);
  EXPECT_EQ(draw("").status, 2);
  EXPECT_EQ(draw("-o " + path("a.npz") + " --cases 0").status, 2);
}

TEST_F(VerbsTrajectories, EnsemblesAreTestedAndDrawnTogether) {
  ASSERT_EQ(train_bands("run").status, 0);
  ASSERT_EQ(train_bands("two", "--seed 1").status, 0);
  ASSERT_EQ(train_bands("wide", "--seed 2 -s plate.cols=9").status, 0);
  ASSERT_EQ(train_bands("plain", "--seed 3 -s loss.frames=mse").status, 0);
  ASSERT_EQ(train("density", "").status, 0);
  const auto eval = [&](const std::string& others) {
    return testing::propagator("eval " + path("run") + " --json --ensemble " +
                               others);
  };
  const auto both = eval(path("two"));
  ASSERT_EQ(both.status, 0) << both.output;
  EXPECT_TRUE(says(both, "\"members\": [\n    \"run\",\n    \"two\""))
      << both.output;
  EXPECT_TRUE(says(both, "\"coverage_per_frame\"")) << both.output;
  const auto drawn =
      draw("-o " + path("a.npz") + " --count 4 --ensemble " + path("two"));
  ASSERT_EQ(drawn.status, 0) << drawn.output;
  EXPECT_TRUE(says(drawn, "fields (1, 4, 16, 8, 8)")) << drawn.output;
  const auto wide = eval(path("wide"));
  EXPECT_EQ(wide.status, 2);
  EXPECT_TRUE(says(wide, "has plate.cols=9, and the first has 8"))
      << wide.output;
  const auto plain = eval(path("two") + " " + path("plain"));
  EXPECT_EQ(plain.status, 2);
  EXPECT_TRUE(says(plain, "member 3 predicts no variance")) << plain.output;
  const auto other = eval(path("density"));
  EXPECT_EQ(other.status, 2);
  EXPECT_TRUE(says(other, "is of the task density")) << other.output;
  const auto away = testing::propagator("eval " + path("density") +
                                        " --ensemble " + path("run"));
  EXPECT_EQ(away.status, 2);
  EXPECT_TRUE(says(away, "cannot be used together")) << away.output;
}

}  // namespace
}  // namespace propagator
