#include "propagator/physics/detector/exact_vertices.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace propagator::physics {
namespace {

constexpr int kMost = 5;  // columns: x, y, z, b, w
using Row = std::array<double, kMost + 1>;

// The solutions of n equations for n + 1 unknowns as base + t · along, by
// elimination with the largest pivot of all; false if there are more.
bool solve_line(std::array<Row, kMost>& rows, int n, Row& base, Row& along) {
  const int columns = n + 1;
  std::array<int, kMost> place;  // column → unknown
  std::iota(place.begin(), place.end(), 0);
  for (int k = 0; k < n; ++k) {
    int row = k, column = k;
    for (int i = k; i < n; ++i) {
      for (int j = k; j < columns; ++j) {
        if (std::abs(rows[i][j]) <= std::abs(rows[row][column])) continue;
        row = i;
        column = j;
      }
    }
    if (std::abs(rows[row][column]) < 1e-13) return false;
    std::swap(rows[k], rows[row]);
    std::swap(place[k], place[column]);
    for (int i = 0; i < n; ++i) std::swap(rows[i][k], rows[i][column]);
    for (int i = 0; i < n; ++i) {
      if (i == k) continue;
      const double factor = rows[i][k] / rows[k][k];
      for (int j = k; j <= columns; ++j) rows[i][j] -= factor * rows[k][j];
    }
  }
  base[place[n]] = 0;
  along[place[n]] = 1;
  for (int k = 0; k < n; ++k) {
    base[place[k]] = rows[k][columns] / rows[k][k];
    along[place[k]] = -rows[k][n] / rows[k][k];
  }
  return true;
}

}  // namespace

int exact_vertices(const EventView& event, std::span<const int64_t> which,
                   std::array<Unknowns, 2>& solutions) {
  const int n = static_cast<int>(which.size());
  // About the means, so that no digit is lost to the origin's place.
  Unknowns mean{};
  for (int i = 0; i < n; ++i) {
    for (int k = 0; k < 3; ++k) mean[k] += event.sensor(which[i])[k] / n;
    if (n > 3) mean[3] += event.path(which[i]) / n;
  }
  std::array<Row, kMost> rows{};
  for (int i = 0; i < n; ++i) {
    const double path = event.path(which[i]) - mean[3];
    double right = path * path;
    for (int k = 0; k < 3; ++k) {
      const double s = event.sensor(which[i])[k] - mean[k];
      rows[i][k] = -2 * s;
      right -= s * s;
    }
    if (n > 3) rows[i][3] = 2 * path;
    rows[i][n] = 1;
    rows[i][n + 1] = right;
  }
  Row base{}, along{};
  if (!solve_line(rows, n, base, along)) return 0;
  // |x|² - b² - w = 0 on the line: a t² + 2 h t + c = 0.
  double a = 0, h = -along[n] / 2, c = -base[n];
  for (int k = 0; k < n; ++k) {
    const double sign = k < 3 ? 1 : -1;
    a += sign * along[k] * along[k];
    h += sign * along[k] * base[k];
    c += sign * base[k] * base[k];
  }
  // A double root may round to none.
  const double root = std::sqrt(std::max(0.0, h * h - a * c));
  const double far = -(h + std::copysign(root, h));
  int count = 0;
  for (const double t : {far / a, c / far}) {
    if (!std::isfinite(t)) continue;
    auto& at = solutions[count++];
    at = mean;
    for (int k = 0; k < n; ++k) at[k] += base[k] + t * along[k];
  }
  return count;
}

}  // namespace propagator::physics
