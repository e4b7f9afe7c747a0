#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "command.h"
#include "testing.h"

namespace propagator {
namespace {

class VerbsSequence : public ::testing::Test {
 protected:
  std::string run() const { return (folder_.path() / "run").string(); }
  testing::Outcome train(const std::string& more) {
    return testing::propagator(
        "train " + std::string(std::getenv("PROPAGATOR_CONFIGS")) +
        "/sequence/phrase.yaml --runs " + folder_.path().string() +
        " --name run --device cpu " + more);
  }
  testing::Outcome generate(const std::string& more) {
    return testing::propagator("generate " + run() + " " + more);
  }

  testing::TemporaryFolder folder_;
};

TEST_F(VerbsSequence, IAmIsFollowedByThePapersWords) {
  const auto trained = train("-s report.page=no -s train.max_steps=60");
  ASSERT_EQ(trained.status, 0) << trained.output;
  EXPECT_NE(trained.output.find("2 of 2"), std::string::npos) << trained.output;
  const auto written = generate("--prompt 'I am'");
  EXPECT_EQ(written.status, 0);
  EXPECT_NE(written.output.find("a teacher and you are a student\n"),
            std::string::npos)
      << written.output;
  const auto beams = generate("--prompt 'I am' --beams 4 --count 2 --json");
  EXPECT_EQ(beams.status, 0);
  EXPECT_NE(beams.output.find("\"a teacher and you are a student\""),
            std::string::npos);
  const auto drawn = [&](int seed) {
    return generate("--prompt 'you are' --temperature 9 --count 5 --seed " +
                    std::to_string(seed))
        .output;
  };
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1), drawn(2));

  const auto refused = [&](const std::string& more, const std::string& why) {
    const auto outcome = generate(more);
    EXPECT_EQ(outcome.status, 2) << more;
    EXPECT_NE(outcome.output.find(why), std::string::npos) << outcome.output;
  };
  refused("--prompt 'I think'", "'think' is no token of this model");
  refused("--prompt 'I am I am'", "a prompt of at most 2 tokens");
  refused("", "--prompt");
  refused("--prompt 'I am' -o a.csv", "leave out --output");
  refused("--prompt 'I am' --top-p 0.5", "add --temperature");
  refused("--prompt 'I am' --temperature -1", "temperature of 0 or more");
  refused("--prompt 'I am' --temperature 1 --top-p 7", "top-p above 0");
  const auto hard = testing::propagator("eval " + run() +
                                        " -s eval.attention=hard --device cpu");
  EXPECT_EQ(hard.status, 0) << hard.output;
  EXPECT_NE(hard.output.find("hard attention"), std::string::npos);
}

TEST(VerbsEncodings, PrintThePapersTable) {
  const auto table = testing::propagator("explain encodings");
  EXPECT_EQ(table.status, 0) << table.output;
  EXPECT_NE(table.output.find("0.5403"), std::string::npos) << table.output;
  EXPECT_NE(table.output.find("-0.7597"), std::string::npos);
  const auto numbers =
      testing::propagator("explain encodings --positions 2 --dims 6 --json");
  EXPECT_EQ(numbers.status, 0);
  EXPECT_NE(numbers.output.find("\"dims\": 6"), std::string::npos);
  EXPECT_EQ(testing::propagator("explain encodings --dims 3").status, 2);
  EXPECT_EQ(testing::propagator("explain").status, 2);
}

}  // namespace
}  // namespace propagator
