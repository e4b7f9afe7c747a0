#include "propagator/serve/access.h"

#include "serve/asking.h"

namespace propagator::serve {
namespace {

constexpr const char* kKey = "a-key-that-is-long-enough";

// The status with which a request is refused; 0 if it is not.
int refusal(const Access& access, const RequestHead& head,
            bool needs_key = true) {
  try {
    access.check(head, needs_key);
    return 0;
  } catch (const Refused& refused) {
    return refused.status();
  }
}

RequestHead called(const std::string& host, Fields more = {}) {
  more.emplace_back("Host", host);
  return {"GET", "/v2", more, "10.0.0.7"};
}

TEST(ServeAccess, ListensBeyondThisMachineWithAKeyAlone) {
  for (const char* address : {"127.0.0.1", "127.8.8.8", "::1", "localhost"}) {
    EXPECT_NO_THROW(Access({.address = address})) << address;
  }
  for (const char* address : {"0.0.0.0", "::", "192.168.1.4"}) {
    EXPECT_THROW(Access({.address = address}), UsageError) << address;
    EXPECT_NO_THROW(Access({.address = address, .key = kKey})) << address;
  }
  EXPECT_THROW(Access({.address = "lab.example"}), UsageError);
  EXPECT_THROW(Access({.address = ""}), UsageError);
}

TEST(ServeAccess, TakesNoKeyThatIsEasyToGuessOrCannotBeSent) {
  EXPECT_THROW(Access({.key = "short"}), UsageError);
  EXPECT_THROW(Access({.key = "a key with several words"}), UsageError);
  EXPECT_THROW(Access({.key = "a-key-with-a-line-end\nand-more"}), UsageError);
}

TEST(ServeAccess, AnswersToItsOwnNamesAlone) {
  const Access access({.hosts = {"Surrogate.lab.example"}});
  for (const char* host :
       {"127.0.0.1", "127.0.0.1:8000", "localhost:9", "LOCALHOST", "10.0.0.7:1",
        "surrogate.lab.example", "surrogate.LAB.example:8000"}) {
    EXPECT_EQ(refusal(access, called(host)), 0) << host;
  }
  for (const char* host :
       {"", "evil.example", "evil.example:8000", "127.0.0.1.evil.example",
        "localhost:8000:1", "localhost:eighty", "[::1", "[evil]:8000",
        "10.0.0.8", "localhost/", "user@localhost", ":8000"}) {
    EXPECT_EQ(refusal(access, called(host)), 421) << host;
  }
  EXPECT_EQ(refusal(access, {"GET", "/", {}, "127.0.0.1"}), 421);
  EXPECT_EQ(refusal(access, called("localhost", {{"host", "localhost"}})), 400);
}

TEST(ServeAccess, KnowsIpV6) {
  const Access access({.address = "::1"});
  EXPECT_EQ(refusal(access, called("[::1]:8000")), 0);
  EXPECT_EQ(refusal(access, called("[::2]:8000")), 421);
}

TEST(ServeAccess, AsksForItsKey) {
  const Access access({.key = kKey});
  const auto with = [&](const std::string& value) {
    return refusal(access, called("localhost", {{"Authorization", value}}));
  };
  EXPECT_EQ(with(std::string("Bearer ") + kKey), 0);
  EXPECT_EQ(with(kKey), 401);
  EXPECT_EQ(with("Bearer "), 401);
  EXPECT_EQ(with(std::string("Bearer ") + kKey + "x"), 401);
  EXPECT_EQ(with(std::string("Bearer ") + "b" + (kKey + 1)), 401);
  EXPECT_EQ(refusal(access, called("localhost")), 401);
  EXPECT_EQ(refusal(access, called("localhost"), /*needs_key=*/false), 0);
}

TEST(ServeAccess, LetsPagesOfOthersAskIfTheyArePermitted) {
  const Access closed({});
  const Fields page{{"Origin", "https://lab.example"}};
  EXPECT_EQ(refusal(closed, called("localhost", page)), 403);
  EXPECT_EQ(refusal(closed, called("localhost:80",
                                   {{"Origin", "http://localhost:80"}})),
            0);
  EXPECT_EQ(refusal(closed, called("localhost", {{"Origin", "null"}})), 403);
  const Access open({.origin = "https://lab.example"});
  EXPECT_EQ(refusal(open, called("localhost", page)), 0);
  Response response;
  open.add_permission(called("localhost", page), response);
  EXPECT_EQ(response.fields[1].second, "https://lab.example");
  EXPECT_THROW(Access({.origin = "*"}), UsageError);
  EXPECT_THROW(Access({.origin = "https://lab.example/page"}), UsageError);
}

}  // namespace
}  // namespace propagator::serve
