#include "propagator/nn/token_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "propagator/core/error.h"

namespace propagator::nn {

void expect_sound(const TokenChoice& choice) {
  const auto expect = [](bool good, const char* what, double got) {
    if (!good) {
      throw UsageError(
          fmt::format("[token_choice] expected {}, got {}", what, got));
    }
  };
  // Written so that NaN is none of them.
  expect(choice.temperature >= 0 && std::isfinite(choice.temperature),
         "a temperature of 0 or more", choice.temperature);
  expect(choice.top_k >= 0, "a top-k of 0 or more",
         static_cast<double>(choice.top_k));
  expect(choice.top_p > 0 && choice.top_p <= 1,
         "a top-p above 0 and not above 1", choice.top_p);
}

std::vector<double> choice_probabilities(std::span<const double> logits,
                                         const TokenChoice& choice) {
  expect_sound(choice);
  std::vector<double> chances(logits.size(), 0.0);
  if (logits.empty()) return chances;
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(
      order, [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  if (choice.temperature == 0) {
    chances[order[0]] = 1;
    return chances;
  }
  if (choice.top_k > 0 && static_cast<size_t>(choice.top_k) < order.size()) {
    order.resize(static_cast<size_t>(choice.top_k));
  }
  const double top = logits[order[0]];
  double sum = 0;
  for (const size_t n : order) {
    sum += chances[n] = std::exp((logits[n] - top) / choice.temperature);
  }
  double reached = 0;
  size_t kept = 0;
  while (kept < order.size() && reached < choice.top_p * sum) {
    reached += chances[order[kept++]];
  }
  for (size_t n = kept; n < order.size(); ++n) chances[order[n]] = 0;
  for (auto& chance : chances) chance /= reached;
  return chances;
}

int64_t drawn_token(std::span<const double> probabilities, double uniform) {
  double sum = 0;
  int64_t last = 0;
  for (size_t n = 0; n < probabilities.size(); ++n) {
    if (probabilities[n] <= 0) continue;
    last = static_cast<int64_t>(n);
    sum += probabilities[n];
    if (sum > uniform) return last;
  }
  return last;  // rounding left the sum below one
}

}  // namespace propagator::nn
