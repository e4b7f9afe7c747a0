#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

#include "command.h"
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

}  // namespace
}  // namespace propagator
