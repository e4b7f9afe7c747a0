#include "propagator/serve/batcher.h"

#include "serve/asking.h"

namespace propagator::serve {
namespace {

// What becomes of a request.
struct Told {
  Answer answer;
  std::exception_ptr error;
};

std::future<Told> submitted(Batcher& batcher, NamedTensors inputs,
                            bool guard = false) {
  const auto promise = std::make_shared<std::promise<Told>>();
  batcher.submit({plate_model(), std::move(inputs), guard,
                  [promise](Answer answer, std::exception_ptr error) {
                    promise->set_value({std::move(answer), error});
                  }});
  return promise->get_future();
}

// Keeps the batcher at work until it is let go, so that requests have to wait.
class Held {
 public:
  explicit Held(Batcher& batcher) {
    thread_ = std::thread([this, &batcher] {
      batcher.submit({plate_model(), plates(1), false,
                      [this](const Answer&, std::exception_ptr) {
                        begun_.set_value();
                        go_.get_future().wait();
                      }});
    });
    begun_.get_future().wait();
  }
  ~Held() { thread_.join(); }
  void let_go() { go_.set_value(); }

 private:
  std::promise<void> begun_, go_;
  std::thread thread_;
};

int64_t batches_of(const Metrics& metrics) {
  const std::string key = "propagator_batches_total{model=\"plate\"} ";
  const auto text = metrics.text();
  return std::stoll(text.substr(text.find(key) + key.size()));
}

TEST(ServeBatcher, GivesTheBitsOfARequestByItself) {
  Metrics metrics;
  std::vector<std::future<Told>> told;
  {
    Batcher batcher({.batch = 1}, metrics);
    Held held(batcher);
    for (int n = 0; n < 4; ++n) {
      told.push_back(submitted(batcher, plates(2, 0.1 * n)));
    }
    held.let_go();
  }  // a request is counted after its answer
  for (int n = 0; n < 4; ++n) {
    const auto own = plate_model()->run().apply(plates(2, 0.1 * n));
    EXPECT_TRUE(torch::equal(
        told[static_cast<size_t>(n)].get().answer.outputs.at("fields"),
        own.at("fields")));
  }
  EXPECT_EQ(batches_of(metrics), 5);
}

TEST(ServeBatcher, ComputesRequestsThatWaitTogether) {
  Metrics metrics;
  std::vector<std::future<Told>> told;
  {
    Batcher batcher({.batch = 3}, metrics);
    Held held(batcher);
    for (int n = 0; n < 4; ++n) {
      told.push_back(submitted(batcher, plates(1 + n % 2, 0.1 * n)));
    }
    held.let_go();
  }
  for (int n = 0; n < 4; ++n) {
    const auto own = plate_model()->run().apply(plates(1 + n % 2, 0.1 * n));
    const auto got = told[static_cast<size_t>(n)].get();
    ASSERT_FALSE(got.error);
    EXPECT_TRUE(testing::near(got.answer.outputs.at("fields"), own.at("fields"),
                              testing::kFloat32));
    EXPECT_TRUE(torch::equal(got.answer.outputs.at("alpha"), own.at("alpha")));
  }
  EXPECT_EQ(batches_of(metrics), 3);  // the one that held, three, one
}

TEST(ServeBatcher, GivesNobodyTheErrorOfAnother) {
  Metrics metrics;
  Batcher batcher({.batch = 8}, metrics);
  Held held(batcher);
  auto good = submitted(batcher, plates(1));
  auto bad_inputs = plates(1);
  bad_inputs.at("fields").fill_(std::nan(""));
  auto bad = submitted(batcher, bad_inputs);
  auto longer = plates(1);  // of another layout
  longer.at("fields") = longer.at("fields").repeat({1, 2, 1, 1});
  auto other = submitted(batcher, longer);
  held.let_go();
  EXPECT_FALSE(good.get().error);
  EXPECT_FALSE(other.get().error);
  const auto error = bad.get().error;
  ASSERT_TRUE(error);
  EXPECT_THROW(std::rethrow_exception(error), UsageError);
}

TEST(ServeBatcher, SendsAwayWhomItCannotServe) {
  Metrics metrics;
  Batcher batcher({.batch = 1, .queue = 2}, metrics);
  Held held(batcher);
  auto first = submitted(batcher, plates(1)),
       second = submitted(batcher, plates(1));
  try {
    submitted(batcher, plates(1));
    ADD_FAILURE() << "expected to be sent away";
  } catch (const Refused& refused) {
    EXPECT_EQ(refused.status(), 503);
    ASSERT_EQ(refused.fields().size(), 1U);
    EXPECT_GE(std::stoi(refused.fields()[0].second), 1);
  }
  held.let_go();
  EXPECT_FALSE(first.get().error);
  EXPECT_FALSE(second.get().error);
}

TEST(ServeBatcher, ForgetsRequestsThatHaveWaitedTooLong) {
  Metrics metrics;
  Batcher batcher({.batch = 4, .patience = 0.05}, metrics);
  Held held(batcher);
  auto late = submitted(batcher, plates(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  held.let_go();
  const auto error = late.get().error;
  ASSERT_TRUE(error);
  EXPECT_THROW(std::rethrow_exception(error), Refused);
}

TEST(ServeBatcher, AnswersWhatWasAcceptedBeforeItEnds) {
  Metrics metrics;
  std::vector<std::future<Told>> told;
  {
    Batcher batcher({.batch = 1}, metrics);
    for (int n = 0; n < 8; ++n) told.push_back(submitted(batcher, plates(1)));
  }
  for (auto& each : told) EXPECT_FALSE(each.get().error);
}

TEST(ServeBatcher, TellsHowFarAnAnswerMayBeTrusted) {
  Metrics metrics;
  Batcher batcher({.batch = 4}, metrics);
  Held held(batcher);
  auto inside = submitted(batcher, plates(1), /*guard=*/true);
  auto hot = plates(1);
  hot.at("alpha").fill_(0.5);
  auto outside = submitted(batcher, hot, /*guard=*/true);
  auto unasked = submitted(batcher, plates(1));
  held.let_go();
  const auto good = inside.get().answer.guard;
  ASSERT_TRUE(good);
  EXPECT_EQ(good->outside, "");
  EXPECT_GT(good->residual, 0);
  const auto bad = outside.get().answer.guard;
  ASSERT_TRUE(bad);
  EXPECT_NE(bad->outside->find("alpha from 0.5"), std::string::npos);
  EXPECT_FALSE(unasked.get().answer.guard);
}

}  // namespace
}  // namespace propagator::serve
