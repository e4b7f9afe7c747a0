#pragma once

#include <torch/types.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "propagator/autodiff/jet.h"

namespace propagator::autodiff {

// A function of some variables that goes through numbers on a grid: between
// two nodes of an axis a cubic polynomial, whose first two derivatives are
// continuous, and whose third is at the second node and the last but one; of
// two nodes a line, of three a parabola. Beyond its grid the outermost
// polynomials go on.
class Table {
 public:
  // For each of these variables, by their numbers, its nodes, two at least and
  // rising; `values` (n_1, …, n_D).
  Table(std::string name, std::vector<int64_t> variables,
        std::vector<torch::Tensor> nodes, const torch::Tensor& values);

  const std::string& name() const { return name_; }
  const std::vector<int64_t>& variables() const { return variables_; }
  std::vector<int64_t> nodes() const;  // how many, along each axis
  // Its derivative by each of its variables, so often, where they are those of
  // `all`; shapes broadcast.
  Jet operator()(const std::vector<Jet>& all,
                 const std::vector<int64_t>& orders) const;

 private:
  struct Pieces {
    std::vector<torch::Tensor> nodes;
    torch::Tensor factors;  // (cells, 4, …, 4) of powers from each cell's node
  };
  const Pieces& pieces_like(const torch::Tensor& places) const;

  std::string name_;
  std::vector<int64_t> variables_;
  Pieces pieces_;
  // The same elsewhere: made once, as a captured graph must find it there.
  mutable std::mutex lock_;
  mutable std::map<std::pair<std::string, torch::ScalarType>, Pieces> others_;
};

}  // namespace propagator::autodiff
