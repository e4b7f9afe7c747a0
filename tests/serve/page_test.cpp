#include "propagator/serve/page.h"

#include <regex>

#include "serve/asking.h"

namespace propagator::serve {
namespace {

Response page_of(Service& service, Fields fields = {}) {
  return asked(service, {head_of("GET", "/", std::move(fields)), ""});
}

std::string header_of(const Response& response, const std::string& name) {
  for (const auto& [other, value] : response.fields) {
    if (other == name) return value;
  }
  return "";
}

int times_in(const std::string& text, const std::string& part) {
  int count = 0;
  size_t at = text.find(part);
  for (; at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

class ServePageText : public ::testing::TestWithParam<Response (*)()> {};

INSTANTIATE_TEST_SUITE_P(Serve, ServePageText,
                         ::testing::Values(page, watch_page));

TEST_P(ServePageText, IsOneTextThatTakesNothingFromElsewhere) {
  const auto made = GetParam()();
  EXPECT_EQ(made.status, 200);
  EXPECT_EQ(made.content_type, "text/html; charset=utf-8");
  EXPECT_TRUE(made.body.starts_with("<!doctype html>"));
  EXPECT_EQ(times_in(made.body, "<script>"), 1);
  EXPECT_EQ(times_in(made.body, "<style>"), 1);
  for (const char* place : {"{{style}}", "{{colours}}", "{{panels}}"}) {
    EXPECT_EQ(times_in(made.body, place), 0) << place;
  }
  // The one address that there may be is the name of SVG.
  EXPECT_EQ(times_in(made.body, "://"),
            times_in(made.body, "'http://www.w3.org/2000/svg'"));
  for (const char* way : {" src=", "url(", "@import", "innerHTML", "outerHTML",
                          "insertAdjacentHTML", "document.write", "eval(",
                          "localStorage", "sessionStorage", "cookie"}) {
    EXPECT_EQ(times_in(made.body, way), 0) << way;
  }
}

TEST_P(ServePageText, LetsABrowserRunItsOwnScriptAlone) {
  const auto made = GetParam()();
  const auto policy = header_of(made, "Content-Security-Policy");
  EXPECT_TRUE(policy.starts_with("default-src 'none'; ")) << policy;
  const std::regex hashes(
      "script-src 'sha256-[A-Za-z0-9+/]{43}='; "
      "style-src 'sha256-[A-Za-z0-9+/]{43}='; connect-src 'self';");
  EXPECT_TRUE(std::regex_search(policy, hashes)) << policy;
  EXPECT_EQ(times_in(policy, "unsafe"), 0);
  EXPECT_EQ(times_in(policy, "frame-ancestors 'none'"), 1);
  EXPECT_EQ(header_of(made, "Referrer-Policy"), "no-referrer");
}

TEST(ServePage, IsGivenToWhomTheServerMayAnswer) {
  Service locked({plate_model()}, {.access = {.key = "a-key-of-some-length"}});
  EXPECT_EQ(page_of(locked).status, 200);
  EXPECT_EQ(page_of(locked).body, page().body);
  EXPECT_EQ(asked(locked, {head_of("GET", "/v2/models"), ""}).status, 401);
  EXPECT_EQ(asked(locked, {head_of("POST", "/"), ""}).status, 405);
  EXPECT_EQ(page_of(locked, {{"Origin", "https://evil.example"}}).status, 403);
  RequestHead renamed{"GET", "/", {{"Host", "evil.example"}}, "127.0.0.1"};
  EXPECT_EQ(asked(locked, {renamed, ""}).status, 421);
}

TEST(ServePage, IsToldWhatItNeedsToMakeUpInputs) {
  const auto plate = plate_model()->metadata();
  const auto& fields = plate.at("inputs")[0].at("parameters");
  EXPECT_EQ(fields.at("low"), 0);
  EXPECT_EQ(fields.at("high"), 1);
  const auto& alpha = plate.at("inputs")[1].at("parameters");
  EXPECT_LT(alpha.at("low"), alpha.at("high"));
  const auto& details = plate.at("parameters").at("details");
  EXPECT_GE(details.at("given"), 1);
  EXPECT_NEAR(details.at("dx").get<double>(), 1.0 / 6, 1e-12);
  EXPECT_NEAR(details.at("dy").get<double>(), 1.0 / 5, 1e-12);
  EXPECT_TRUE(details.contains("dt") || details.contains("alpha_dt"));
  const auto x = pde_model()->metadata().at("inputs")[0].at("parameters");
  EXPECT_LT(x.at("low"), x.at("high"));
}

}  // namespace
}  // namespace propagator::serve
