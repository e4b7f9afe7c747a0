#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace propagator::kernels {

// Which row of a jet (autodiff/jet.h) has which Taylor coefficient, to order 4:
// row 0 is the value, and along each direction coefficients 1, 2, … to its
// order have a row each. Where one row sums the coefficients 2, all directions
// name it, each with a sign.
struct JetSeries {
  static constexpr int64_t kMostOrder = 4;

  struct Direction {
    int64_t order = 1;
    std::array<int64_t, kMostOrder + 1> row = {};  // of coefficient k
    int sign = 1;
    // Whether the row of its coefficient 2 begins with it, and is whole.
    bool opens = true;
  };
  std::vector<Direction> directions;
  int64_t rows = 1;

  int64_t order() const {
    int64_t most = 0;
    for (const auto& d : directions) most = d.order > most ? d.order : most;
    return most;
  }
};

}  // namespace propagator::kernels
