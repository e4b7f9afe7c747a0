#include "propagator/serve/problem_check.h"

#include <fstream>

#include "propagator/run/checked.h"
#include "serve/asking.h"

namespace propagator::serve {
namespace {

const std::string kWave =
    "task: solve\n"
    "problem:\n"
    "  domain: ['x in [0, 1]', 't in [0, 1]']\n"
    "  fields: u\n"
    "  equations: ['u_tt = 4*u_xx']\n"
    "  conditions: ['at t=0: u = sin(pi*x)', 'at t=0: u_t = 0',\n"
    "               'on x=0: u = 0', 'on x=1: u = 0']\n";

Response checked_by(Service& checker, const std::string& text) {
  return asked(checker, {head_of("POST", "/check"), text});
}

Service& checking() {
  static Service one({plate_model()}, {});
  return one;
}

TEST(ServeProblemCheck, SaysWhatCheckSays) {
  const auto response = checked_by(checking(), kWave);
  ASSERT_EQ(response.status, 200) << response.body;
  const auto said = json_of(response);
  EXPECT_EQ(said.at("good"), true);
  const run::Experiment same(config::Document::from_text(kWave, "wave"));
  EXPECT_EQ(said.at("found"), nlohmann::json(same.task().inspect()));
  EXPECT_GT(said.at("parameters"), 0);
}

TEST(ServeProblemCheck, PointsAtWhatIsWrong) {
  auto text = kWave;
  text.replace(text.find("4*u_xx"), 6, "4*w_xx");
  const auto response = checked_by(checking(), text);
  EXPECT_EQ(response.status, 400);
  EXPECT_NE(error_of(response).find("problem:5:"), std::string::npos)
      << response.body;
  EXPECT_NE(error_of(response).find("w_xx"), std::string::npos);
  for (const char* wrong : {"", "x", "- x", "task: [", "---\n---\n", "{a: *a}",
                            "task: solve\nproblem: 3\n", "\xff\xfe"}) {
    EXPECT_EQ(checked_by(checking(), wrong).status, 400) << wrong;
  }
}

// Not even whether they are there.
TEST(ServeProblemCheck, ReadsNoFile) {
  const testing::TemporaryFolder folder;
  std::ofstream(folder / "k.csv") << "x,k\n0,1\n1,2\n";
  std::ofstream(folder / "base.yaml") << kWave;
  const auto there = (folder / "k.csv").string();
  const auto base = (folder / "base.yaml").string();
  const auto refused = [&](const std::string& more) {
    const auto response = checked_by(checking(), kWave + more);
    EXPECT_EQ(response.status, 400) << more;
    EXPECT_NE(error_of(response).find("cannot be set here"), std::string::npos)
        << response.body;
    return error_of(response);
  };
  refused("  tables: ['" + there + "']\n");
  refused("from: " + base + "\n");
  refused("data: {file: '" + there + "'}\n");
  refused("sensors: {file: '" + there + "'}\n");
  refused("train: {max_steps: 1}\n");
  refused("model: {width: 100000}\n");
  refused("points: {per_axis: 10000}\n");
  refused("device: cuda\n");
  EXPECT_EQ(refused("  tables: ['" + there + "']\n"),
            refused("  tables: ['/no/such/file']\n"));
}

TEST(ServeProblemCheck, TakesNoOtherTaskAndNoLargeWork) {
  const auto error = [](const std::string& text) {
    const auto response = checked_by(checking(), text);
    EXPECT_EQ(response.status, 400) << response.body;
    return error_of(response);
  };
  EXPECT_NE(error("task: forecast\n").find("task: solve"), std::string::npos);
  EXPECT_NE(error("task: reconstruct\n").find("task: solve"),
            std::string::npos);
  auto text = kWave;
  text.replace(text.find("'x in"), 5,
               "'y in [0, 1]', 'z in [0, 1]', 'w in [0, 1]', 'x in");
  EXPECT_NE(error(text).find("at most 4 variables"), std::string::npos);
  const std::string long_text(ProblemCheck::kMostBytes + 1, '#');
  EXPECT_EQ(checked_by(checking(), long_text).status, 413);
}

TEST(ServeProblemCheck, IsForThoseWhoMayAsk) {
  Service locked({plate_model()}, {.access = {.key = "a-key-of-some-length"}});
  EXPECT_EQ(checked_by(locked, kWave).status, 401);
  EXPECT_EQ(asked(locked, {head_of("GET", "/check"), ""}).status, 401);
  EXPECT_EQ(asked(checking(), {head_of("GET", "/check"), ""}).status, 405);
  const auto announced =
      head_of("POST", "/check", {{"Content-Length", "10000000"}});
  EXPECT_EQ(asked(checking(), {announced, ""}).status, 413);
  const auto page =
      head_of("POST", "/check", {{"Origin", "https://evil.example"}});
  EXPECT_EQ(asked(checking(), {page, kWave}).status, 403);
}

TEST(ServeProblemCheck, ChecksOneAtATime) {
  std::promise<Response> promise;
  checking().answer({head_of("POST", "/check"), kWave}, [&](Response response) {
    promise.set_value(std::move(response));
  });
  const auto second = checked_by(checking(), kWave);
  EXPECT_EQ(promise.get_future().get().status, 200);
  if (second.status != 200) {
    EXPECT_EQ(second.status, 503);
    EXPECT_EQ(second.fields[0].first, "Retry-After");
  }
  EXPECT_EQ(checked_by(checking(), kWave).status, 200);
}

}  // namespace
}  // namespace propagator::serve
