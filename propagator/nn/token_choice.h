#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace propagator::nn {

// How the next token is chosen from its logits. The most probable one, unless
// there is a temperature: then one is drawn from softmax(logits / temperature),
// cut to the `top_k` most probable (0: all), and of these to the fewest whose
// probabilities reach `top_p` together (nucleus; 1: all).
struct TokenChoice {
  double temperature = 0;
  int64_t top_k = 0;
  double top_p = 1;
};

// UsageError if a number is out of its bounds.
void expect_sound(const TokenChoice& choice);

// The probability with which each token is chosen; they sum to one. Of equal
// logits the first are the more probable.
std::vector<double> choice_probabilities(std::span<const double> logits,
                                         const TokenChoice& choice);

// The token at which the sum of the probabilities passes `uniform`, a number
// on [0, 1).
int64_t drawn_token(std::span<const double> probabilities, double uniform);

}  // namespace propagator::nn
