#pragma once

#include <torch/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace propagator::nn {

// Where a variable can be: anywhere, above or below a number, between two, or
// on a circle, where `high` - `low` makes a whole turn.
struct Support {
  enum class Kind { kLine, kAbove, kBelow, kBetween, kCircle };
  Kind kind = Kind::kLine;
  double low = 0, high = 0;
};

// "x > 0", "x < 5", "0 < x < 1", or "x mod 360" for a circle from 0 to 360.
struct NamedSupport {
  std::string name;
  Support support;
};
// std::invalid_argument, with what is wrong, if the text is nothing of these.
NamedSupport parse_support(std::string_view text);
// As it was written.
std::string to_string(const NamedSupport& named);

// Maps between where D variables can be and the whole line: log(x - low), the
// logit of a share; a circle is cut open, and its density is the sum of those
// at all turns.
class Supports {
 public:
  Supports() = default;
  // One for each variable, or none: lines.
  explicit Supports(std::vector<Support> all) : all_(std::move(all)) {}

  bool are_lines() const;
  struct OnLine {
    torch::Tensor value;      // (N, D)
    torch::Tensor log_slope;  // (N), -inf where x cannot be
  };
  OnLine to_line(const torch::Tensor& x) const;
  torch::Tensor from_line(const torch::Tensor& z) const;
  // (K, D): what turns add on the line, zeros without a circle.
  torch::Tensor turns(const torch::TensorOptions& options) const;
  // (N) bool, on the CPU: rows that can be.
  torch::Tensor hold(const torch::Tensor& x) const;

 private:
  std::vector<Support> all_;
};

}  // namespace propagator::nn
