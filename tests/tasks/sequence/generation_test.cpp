#include "propagator/tasks/sequence/generation.h"

#include <cmath>

#include "propagator/core/error.h"
#include "propagator/nn/init.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

using data::kEnd;
using data::kStart;
using data::Tokens;
using torch::Tensor;

// Every token depends on the one before it: row `last` of a table of logits,
// and on how many there were, so that greedy is not the best.
class Chain : public models::Continuation {
 public:
  explicit Chain(Tensor table, int64_t rows = 1)
      : table_(std::move(table)), last_(static_cast<size_t>(rows), kStart) {}

  Tensor step(const Tensor& tokens) override {
    std::vector<Tensor> rows;
    for (size_t b = 0; b < last_.size(); ++b) {
      last_[b] =
          tokens[static_cast<int64_t>(b)][tokens.size(1) - 1].item<int64_t>();
      rows.push_back(table_[last_[b]]);
    }
    return torch::stack(rows);
  }
  void select(const Tensor& rows) override {
    std::vector<int64_t> chosen;
    for (int64_t n = 0; n < rows.size(0); ++n) {
      chosen.push_back(last_[static_cast<size_t>(rows[n].item<int64_t>())]);
    }
    last_ = chosen;
  }

 private:
  Tensor table_;
  std::vector<int64_t> last_;
};

const Tensor kStartRow = torch::full({1, 1}, kStart, torch::kInt64);

// The most probable sequence of up to `most` tokens, by trying all.
void try_all(const Tensor& table, int64_t most, FoundSequence& now,
             int64_t last, FoundSequence& best) {
  const auto better = [&](double score) {
    return best.tokens.empty() && !best.ended ? true
                                              : score > best.log_probability;
  };
  auto logits = table[last].clone();
  logits.narrow(0, 0, kEnd).fill_(-INFINITY);
  const auto chances = torch::log_softmax(logits, 0);
  for (int64_t token = kEnd; token < table.size(1); ++token) {
    auto next = now;
    next.log_probability += chances[token].item<double>();
    next.ended = token == kEnd;
    if (!next.ended) next.tokens.push_back(token);
    if (next.ended || std::ssize(next.tokens) == most) {
      if (better(next.log_probability)) best = next;
    } else {
      try_all(table, most, next, token, best);
    }
  }
}

TEST(TasksBeamSearch, AWidthOfOneIsGreedy) {
  for (int64_t n = 0; n < 10; ++n) {
    const auto table = 3 * testing::random({7, 7}, "table" + std::to_string(n));
    Chain a(table), b(table);
    const auto greedy =
        generate_tokens(a, kStartRow, {}, 8, RandomStream(0, "none"));
    const auto found = beam_search(b, kStartRow, 1, 8);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].tokens, greedy.tokens[0]);
    EXPECT_EQ(found[0].ended, greedy.ended[0]);
  }
}

TEST(TasksBeamSearch, AWideBeamFindsTheBestOfAll) {
  bool greedy_is_worse = false;
  for (int64_t n = 0; n < 10; ++n) {
    const auto table = 2 * testing::random({6, 6}, "table" + std::to_string(n));
    FoundSequence best, none;
    try_all(table, 4, none, kStart, best);
    Chain wide(table), narrow(table);
    const auto found = beam_search(wide, kStartRow, 200, 4);
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found[0].tokens, best.tokens);
    EXPECT_NEAR(found[0].log_probability, best.log_probability, 1e-12);
    for (size_t m = 1; m < found.size(); ++m) {
      EXPECT_GE(found[m - 1].log_probability, found[m].log_probability);
    }
    // All of it is there: the probabilities sum to one.
    double sum = 0;
    for (const auto& one : found) sum += std::exp(one.log_probability);
    EXPECT_NEAR(sum, 1, 1e-9);
    greedy_is_worse =
        greedy_is_worse ||
        beam_search(narrow, kStartRow, 1, 4)[0].tokens != best.tokens;
  }
  EXPECT_TRUE(greedy_is_worse);
}

TEST(TasksGeneration, DrawsAsOftenAsIsProbable) {
  // From the start: 3 with 1/4, the end with 3/4.
  auto table = torch::full({4, 4}, -INFINITY, torch::kFloat64);
  table[kStart][3] = std::log(0.25);
  table[kStart][kEnd] = std::log(0.75);
  table[3][kEnd] = 0;
  constexpr int64_t kRows = 4000;
  Chain chain(table, kRows);
  const auto made =
      generate_tokens(chain, kStartRow.repeat({kRows, 1}), {.temperature = 1},
                      5, RandomStream(1, "draws"));
  int64_t threes = 0;
  for (const auto& tokens : made.tokens) threes += !tokens.empty();
  EXPECT_NEAR(static_cast<double>(threes) / kRows, 0.25,
              4 * std::sqrt(0.25 * 0.75 / kRows));
}

std::shared_ptr<models::SequenceModel> writer(int64_t window) {
  const auto options = models::sequence_models().at("decoder_only").options();
  options->stack = {.layers = 1, .width = 8, .heads = 2, .feed_forward = 8};
  auto model = options->make({.tokens = 12, .source = 0, .target = window});
  nn::initialise(*model, 5);
  model->to(torch::kFloat64);
  return model;
}

TEST(TasksGeneration, TheSameStreamWritesTheSame) {
  const auto model = writer(8);
  const auto none = torch::empty({1, 0}, torch::kInt64);
  const auto drawn = [&](int64_t seed) {
    return continued(*model, none, kStartRow, 12, {.temperature = 1}, 30,
                     RandomStream(seed, "text"));
  };
  const auto first = drawn(0);
  EXPECT_EQ(first, drawn(0));
  EXPECT_NE(first, drawn(1));
}

TEST(TasksGeneration, TokensThatAreNotThereAreNotWritten) {
  const auto model = writer(8);
  const torch::NoGradGuard no_grad;
  model->named_parameters()["head.bias"][11] = 1e9;
  const auto none = torch::empty({1, 0}, torch::kInt64);
  const RandomStream stream(0, "text");
  EXPECT_EQ(continued(*model, none, kStartRow, 12, {}, 4, stream)[0],
            Tokens(4, 11));
  const auto others = continued(*model, none, kStartRow, 11, {}, 4, stream)[0];
  for (const int64_t token : others) EXPECT_LT(token, 11);
}

TEST(TasksGeneration, GoesOnBeyondTheWindow) {
  // Token n of more than a window is greedy after the last half of those
  // before the latest start.
  const auto model = writer(8);
  // Nothing ends: the end is as improbable as can be.
  const torch::NoGradGuard no_grad;
  model->named_parameters()["head.bias"][kEnd] = -1e9;
  const auto none = torch::empty({1, 0}, torch::kInt64);
  const auto all = continued(*model, none, kStartRow, 12, {}, 11,
                             RandomStream(0, "text"))[0];
  ASSERT_EQ(all.size(), 11u);
  Tokens again{kStart};
  again.insert(again.end(), all.begin() + 4, all.begin() + 8);
  const auto state = model->begin(none);
  const auto rest = generate_tokens(*state, torch::tensor(again).unsqueeze(0),
                                    {}, 3, RandomStream(0, "text"))
                        .tokens[0];
  EXPECT_EQ(rest, Tokens(all.begin() + 8, all.end()));
}

}  // namespace
}  // namespace propagator::tasks
