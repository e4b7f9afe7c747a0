#include "propagator/serve/watch.h"

#include <fstream>

#include "serve/asking.h"

namespace propagator::serve {
namespace {

Response looked(WatchHandler& handler, const std::string& target) {
  return asked(handler, {head_of("GET", target), ""});
}

TEST(ServeWatch, GivesWholeLinesOfMetricsFromAByteOn) {
  const testing::TemporaryFolder folder;
  WatchHandler handler(folder.path());
  EXPECT_EQ(looked(handler, "/metrics.jsonl").body, "");
  std::ofstream file(folder / "metrics.jsonl");
  file << "{\"step\":1}\n{\"step\":2}\n{\"st" << std::flush;
  EXPECT_EQ(looked(handler, "/metrics.jsonl").body,
            "{\"step\":1}\n{\"step\":2}\n");
  EXPECT_EQ(looked(handler, "/metrics.jsonl?from=11").body, "{\"step\":2}\n");
  EXPECT_EQ(looked(handler, "/metrics.jsonl?from=22").body, "");
  file << "ep\":3}\n" << std::flush;
  EXPECT_EQ(looked(handler, "/metrics.jsonl?from=22").body, "{\"step\":3}\n");
  EXPECT_EQ(looked(handler, "/metrics.jsonl?from=34").status, 416);
  EXPECT_EQ(looked(handler, "/metrics.jsonl?from=-1").status, 416);
}

TEST(ServeWatch, SaysHowFarItIs) {
  WatchHandler handler("runs/quick/");
  auto said = json_of(looked(handler, "/progress"));
  EXPECT_EQ(said.at("name"), "quick");
  EXPECT_TRUE(said.at("step").is_null());
  const std::string title = "step";
  const std::function<std::string()> note = [] {
    ADD_FAILURE() << "asked for what nobody is shown";
    return "";
  };
  handler.note(Observer::Step{title, 5, 20, 2.5, 2, note});
  handler.note("step 5/20");
  said = json_of(looked(handler, "/progress"));
  EXPECT_EQ(said.at("step").at("done"), 5);
  EXPECT_EQ(said.at("step").at("total"), 20);
  EXPECT_EQ(said.at("step").at("rate"), 2.5);
  EXPECT_EQ(said.at("line"), "step 5/20");
}

TEST(ServeWatch, AnswersThisMachineAlone) {
  WatchHandler handler("runs/quick");
  EXPECT_EQ(looked(handler, "/").content_type, "text/html; charset=utf-8");
  EXPECT_EQ(looked(handler, "/config.yaml").status, 404);
  EXPECT_EQ(looked(handler, "/../log.txt").status, 404);
  EXPECT_EQ(asked(handler, {head_of("POST", "/"), ""}).status, 405);
  const Fields page{{"Origin", "https://evil.example"}};
  EXPECT_EQ(asked(handler, {head_of("GET", "/progress", page), ""}).status,
            403);
  RequestHead renamed{"GET", "/", {{"Host", "evil.example"}}, "127.0.0.1"};
  EXPECT_EQ(asked(handler, {renamed, ""}).status, 421);
}

TEST(ServeWatch, TellsTheObserverBehindIt) {
  if (!has_http()) GTEST_SKIP() << "built without Boost";
  testing::Lines lines;
  Watch watch("runs/quick", lines);
  watch.log(Observer::Level::kWarning, "a warning");
  EXPECT_EQ(lines.warnings, std::vector<std::string>{"a warning"});
  EXPECT_FALSE(watch.stop_requested());
  EXPECT_TRUE(watch.url().starts_with("http://127.0.0.1:"));
}

}  // namespace
}  // namespace propagator::serve
