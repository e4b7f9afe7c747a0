#include "propagator/nn/support.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <sstream>
#include <stdexcept>

namespace propagator::nn {

using torch::Tensor;
using Kind = Support::Kind;

namespace {

std::optional<double> number_of(const std::string& word) {
  double value = 0;
  const char* end = word.data() + word.size();
  const auto read = std::from_chars(word.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

// Of one variable: where it is on the line, how steep the map is, and whether
// it can be at all. What cannot be is taken to a place that can.
struct Placed {
  Tensor value, log_slope, holds;
};
Placed place(const Support& s, const Tensor& x) {
  const auto above = [](const Tensor& height) {
    const auto holds = height > 0;
    const auto safe = torch::where(holds, height, torch::ones_like(height));
    return Placed{torch::log(safe), -torch::log(safe), holds};
  };
  switch (s.kind) {
    case Kind::kAbove:
      return above(x - s.low);
    case Kind::kBelow:
      return above(s.high - x);
    case Kind::kBetween: {
      const double width = s.high - s.low;
      const auto holds = (x > s.low) & (x < s.high);
      const auto share =
          torch::where(holds, (x - s.low) / width, torch::full_like(x, 0.5));
      const auto low = torch::log(share), high = torch::log1p(-share);
      return {low - high, -low - high - std::log(width), holds};
    }
    case Kind::kCircle:
      return {s.low + torch::remainder(x - s.low, s.high - s.low),
              torch::zeros_like(x), torch::ones_like(x, torch::kBool)};
    default:
      return {x, torch::zeros_like(x), torch::ones_like(x, torch::kBool)};
  }
}

Tensor place_back(const Support& s, const Tensor& z) {
  switch (s.kind) {
    case Kind::kAbove:
      return s.low + torch::exp(z);
    case Kind::kBelow:
      return s.high - torch::exp(z);
    case Kind::kBetween:
      return s.low + (s.high - s.low) * torch::sigmoid(z);
    case Kind::kCircle:
      return s.low + torch::remainder(z - s.low, s.high - s.low);
    default:
      return z;
  }
}

}  // namespace

NamedSupport parse_support(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  const auto fail = [&](const std::string& what) {
    return std::invalid_argument(fmt::format("'{}': {}", text, what));
  };
  const auto number = [&](const std::string& word) {
    const auto value = number_of(word);
    if (!value) throw fail(fmt::format("'{}' is no number", word));
    return *value;
  };
  if (words.size() == 3 && words[1] == ">") {
    return {words[0], {Kind::kAbove, number(words[2]), 0}};
  }
  if (words.size() == 3 && words[1] == "<") {
    return {words[0], {Kind::kBelow, 0, number(words[2])}};
  }
  if (words.size() == 3 && words[1] == "mod") {
    const double turn = number(words[2]);
    if (turn <= 0) throw fail("a whole turn is above 0");
    return {words[0], {Kind::kCircle, 0, turn}};
  }
  if (words.size() == 5 && words[1] == "<" && words[3] == "<") {
    const double low = number(words[0]), high = number(words[4]);
    if (low >= high) throw fail("the second number must be the larger one");
    return {words[2], {Kind::kBetween, low, high}};
  }
  throw fail("expected 'x > 0', 'x < 5', '0 < x < 1' or 'x mod 360'");
}

std::string to_string(const NamedSupport& named) {
  const auto& [name, s] = named;
  switch (s.kind) {
    case Kind::kAbove:
      return fmt::format("{} > {}", name, s.low);
    case Kind::kBelow:
      return fmt::format("{} < {}", name, s.high);
    case Kind::kBetween:
      return fmt::format("{} < {} < {}", s.low, name, s.high);
    case Kind::kCircle:
      return fmt::format("{} mod {}", name, s.high);
    default:
      return name;
  }
}

bool Supports::are_lines() const {
  for (const auto& s : all_) {
    if (s.kind != Kind::kLine) return false;
  }
  return true;
}

Supports::OnLine Supports::to_line(const Tensor& x) const {
  auto log_slope = torch::zeros({x.size(0)}, x.options());
  if (are_lines()) return {x, log_slope};
  std::vector<Tensor> values;
  for (size_t d = 0; d < all_.size(); ++d) {
    const auto placed = place(all_[d], x.select(1, static_cast<int64_t>(d)));
    values.push_back(placed.value);
    log_slope = (log_slope + placed.log_slope)
                    .masked_fill(~placed.holds,
                                 -std::numeric_limits<double>::infinity());
  }
  return {torch::stack(values, 1), log_slope};
}

Tensor Supports::from_line(const Tensor& z) const {
  if (are_lines()) return z;
  std::vector<Tensor> values;
  for (size_t d = 0; d < all_.size(); ++d) {
    values.push_back(place_back(all_[d], z.select(1, static_cast<int64_t>(d))));
  }
  return torch::stack(values, 1);
}

Tensor Supports::turns(const torch::TensorOptions& options) const {
  auto turns = torch::zeros({1, std::ssize(all_)}, options);
  for (size_t d = 0; d < all_.size(); ++d) {
    if (all_[d].kind != Kind::kCircle) continue;
    auto one = torch::zeros_like(turns[0]);
    one[static_cast<int64_t>(d)] = all_[d].high - all_[d].low;
    turns = torch::cat({turns - one, turns, turns + one});
  }
  return turns;
}

Tensor Supports::hold(const Tensor& x) const {
  return torch::isfinite(to_line(x).log_slope).to(torch::kCPU);
}

}  // namespace propagator::nn
