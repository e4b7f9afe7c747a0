#pragma once

#include <torch/types.h>

#include <map>
#include <string>
#include <vector>

namespace propagator::train {

// The last pairs s = x' - x, y = g' - g of L-BFGS and the direction -H g that
// they give; H is the inverse Hessian of the two-loop recursion (Nocedal &
// Wright, algorithm 7.4), begun with γ = s·y / y·y of the newest pair.
//
// The direction lies in the span of g and the pairs,
//   d = -γ g + Σ_k (c_k s_k + e_k y_k),
// so the recursion runs on the host on coefficients, in float64: it needs only
// the products of pairs with each other, of which each new pair brings one
// column, and with g. Where the numbers are, a direction costs one pass over
// the pairs for the products, one for the sum, and one wait.
class LbfgsHistory {
 public:
  // `size`: how many pairs are kept; `like` (n): the parameters.
  LbfgsHistory(int64_t size, const torch::Tensor& like);

  // Writes a pair down. The next `direction` takes its products and refuses it
  // if its curvature is no more than rounding.
  void offer(const torch::Tensor& s, const torch::Tensor& y);  // (n), (n)

  // Sets `out` (n) to -H g and returns its slope, g·out.
  double direction(const torch::Tensor& g, torch::Tensor& out);

  void forget();
  int64_t count() const { return count_; }

  // With all of `state`, a restored history goes on to the same bits: pairs
  // keep their rows, since sums over rows depend on their order.
  std::map<std::string, torch::Tensor> state() const;
  void restore(const std::map<std::string, torch::Tensor>& state);

 private:
  // Row of the k-th pair, from the oldest.
  int64_t slot(int64_t k) const { return (first_ + k) % slots_; }
  double& sy(int64_t i, int64_t j) { return sy_[i * slots_ + j]; }
  double& yy(int64_t i, int64_t j) { return yy_[i * slots_ + j]; }
  // Products of the offered pair: `products` (2 used_), its y with all rows.
  void decide(const double* products, double s_squared);
  // The recursion; `products` (2 used_), g with all rows. Returns γ.
  double recursion(const double* products, std::vector<double>& coefficients);

  // One more than the pairs that are kept, so that a refused one costs none.
  int64_t slots_;
  torch::Tensor rows_;             // (2 slots, n): s and y in turn
  std::vector<double> sy_, yy_;    // (slots, slots): s_i·y_j, y_i·y_j
  int64_t first_ = 0, count_ = 0;  // the ring: oldest pair, pairs
  int64_t used_ = 0;               // slots that were ever written
  bool offered_ = false;           // the slot after the newest pair waits
};

// The entry of that name, as a contiguous tensor on the CPU. DataError if it is
// missing or has another type or shape.
torch::Tensor state_entry(const std::map<std::string, torch::Tensor>& state,
                          const std::string& name, torch::ScalarType type,
                          torch::IntArrayRef shape);

}  // namespace propagator::train
