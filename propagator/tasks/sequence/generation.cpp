#include "propagator/tasks/sequence/generation.h"

#include <torch/utils.h>

#include <algorithm>
#include <limits>

#include "propagator/core/error.h"

namespace propagator::tasks {
namespace {

using data::kEnd;
using data::Tokens;
using torch::Tensor;

// Padding and start follow nothing.
Tensor without_marks(const Tensor& logits) {
  auto kept = logits.clone();
  kept.narrow(1, 0, kEnd).fill_(-std::numeric_limits<double>::infinity());
  return kept;
}

void expect_numbers(const Tensor& logits) {
  if (torch::isnan(logits).any().item<bool>()) {
    throw NumericalError("[generate] a logit is not finite");
  }
}

// (B), on the CPU.
Tensor chosen_tokens(const Tensor& logits, const nn::TokenChoice& choice,
                     const RandomStream& stream, int64_t first_row,
                     int64_t index) {
  if (choice.temperature == 0) return logits.argmax(1).cpu();
  const auto rows = logits.to(torch::kCPU, torch::kFloat64).contiguous();
  const auto count = static_cast<size_t>(rows.size(1));
  auto tokens = torch::empty({rows.size(0)}, torch::kInt64);
  for (int64_t b = 0; b < rows.size(0); ++b) {
    const auto* row = rows.data_ptr<double>() + b * rows.size(1);
    const auto chances = nn::choice_probabilities({row, count}, choice);
    tokens[b] = nn::drawn_token(chances, stream.uniform(first_row + b, index));
  }
  return tokens;
}

}  // namespace

Generated generate_tokens(models::Continuation& state, const Tensor& first,
                          const nn::TokenChoice& choice, int64_t most,
                          const RandomStream& stream, int64_t first_row,
                          int64_t drawn) {
  nn::expect_sound(choice);
  const auto rows = static_cast<size_t>(first.size(0));
  Generated made{std::vector<Tokens>(rows), std::vector<bool>(rows, false)};
  auto next = first;
  for (int64_t t = 0; t < most; ++t) {
    const auto logits = without_marks(state.step(next));
    expect_numbers(logits);
    const auto tokens =
        chosen_tokens(logits, choice, stream, first_row, drawn + t);
    const auto* token = tokens.data_ptr<int64_t>();
    for (size_t b = 0; b < rows; ++b) {
      made.ended[b] = made.ended[b] || token[b] == kEnd;
      if (!made.ended[b]) made.tokens[b].push_back(token[b]);
    }
    if (std::ranges::all_of(made.ended, std::identity{})) break;
    next = tokens.unsqueeze(1).to(first.device());
  }
  return made;
}

std::vector<Tokens> continued(models::SequenceModel& model,
                              const Tensor& source, const Tensor& first,
                              int64_t tokens, const nn::TokenChoice& choice,
                              int64_t length, const RandomStream& stream) {
  const int64_t window = model.shape().target, rows = first.size(0);
  std::vector<Tokens> all;
  for (int64_t b = 0; b < rows; ++b) {
    auto begun = first.narrow(0, b, 1);
    const auto given = begun.cpu().contiguous();
    // All after the start, given and made.
    Tokens history(given.data_ptr<int64_t>() + 1,
                   given.data_ptr<int64_t>() + given.size(1));
    Tokens made;
    while (std::ssize(made) < length) {
      const int64_t left = length - std::ssize(made);
      const int64_t room = window - (begun.size(1) - 1);
      KnownTokens state(model.begin(source.narrow(0, b, 1)), tokens);
      const auto part =
          generate_tokens(state, begun, choice, std::min(left, room), stream, b,
                          std::ssize(made));
      const auto& more = part.tokens[0];
      made.insert(made.end(), more.begin(), more.end());
      history.insert(history.end(), more.begin(), more.end());
      if (part.ended[0] || more.empty()) break;
      Tokens next{data::kStart};
      const auto kept = std::min<int64_t>(window / 2, std::ssize(history));
      next.insert(next.end(), history.end() - kept, history.end());
      begun = torch::tensor(next).unsqueeze(0).to(first.device());
    }
    all.push_back(std::move(made));
  }
  return all;
}

namespace {

// The `width` best ways to go on from `alive` by one token, the best first:
// row and token.
std::vector<std::pair<int64_t, int64_t>> best_steps(
    const Tensor& logits, const std::vector<FoundSequence>& alive,
    int64_t width, std::vector<double>& scores) {
  auto total = torch::log_softmax(
      without_marks(logits).to(torch::kCPU, torch::kFloat64), 1);
  expect_numbers(total);
  for (size_t n = 0; n < alive.size(); ++n) {
    total[static_cast<int64_t>(n)] += alive[n].log_probability;
  }
  const int64_t tokens = total.size(1);
  const auto flat = total.flatten().contiguous();
  const auto* score = flat.data_ptr<double>();
  std::vector<int64_t> order;
  for (int64_t n = 0; n < flat.size(0); ++n) {
    if (score[n] > -std::numeric_limits<double>::infinity()) order.push_back(n);
  }
  const auto kept = std::min<size_t>(order.size(), static_cast<size_t>(width));
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept),
      order.end(), [&](int64_t a, int64_t b) {
        return score[a] > score[b] || (score[a] == score[b] && a < b);
      });
  order.resize(kept);
  std::vector<std::pair<int64_t, int64_t>> steps;
  scores.clear();
  for (const int64_t n : order) {
    steps.emplace_back(n / tokens, n % tokens);
    scores.push_back(score[n]);
  }
  return steps;
}

}  // namespace

std::vector<FoundSequence> beam_search(models::Continuation& state,
                                       const Tensor& first, int64_t width,
                                       int64_t most) {
  if (width < 1 || first.size(0) != 1) {
    throw UsageError("[beam_search] expected one row and a width of 1 or more");
  }
  std::vector<FoundSequence> alive(1), found;
  auto next = first;
  std::vector<double> scores;
  for (int64_t t = 0; t < most && !alive.empty(); ++t) {
    const auto steps = best_steps(state.step(next), alive, width, scores);
    std::vector<FoundSequence> going;
    Tokens rows, tokens;
    for (size_t n = 0; n < steps.size(); ++n) {
      const auto [row, token] = steps[n];
      auto one = alive[static_cast<size_t>(row)];
      one.log_probability = scores[n];
      one.ended = token == kEnd;
      if (one.ended) {
        found.push_back(std::move(one));
        continue;
      }
      one.tokens.push_back(token);
      going.push_back(std::move(one));
      rows.push_back(row);
      tokens.push_back(token);
    }
    alive = std::move(going);
    std::ranges::stable_sort(found, std::greater{},
                             &FoundSequence::log_probability);
    if (found.size() > static_cast<size_t>(width)) found.resize(width);
    // Probabilities only fall: nothing that still goes on can overtake.
    if (alive.empty() ||
        (found.size() == static_cast<size_t>(width) &&
         found.back().log_probability >= alive.front().log_probability)) {
      alive.clear();
      break;
    }
    state.select(torch::tensor(rows).to(first.device()));
    next = torch::tensor(tokens).unsqueeze(1).to(first.device());
  }
  found.insert(found.end(), alive.begin(), alive.end());
  std::ranges::stable_sort(found, std::greater{},
                           &FoundSequence::log_probability);
  if (found.size() > static_cast<size_t>(width)) found.resize(width);
  return found;
}

}  // namespace propagator::tasks
