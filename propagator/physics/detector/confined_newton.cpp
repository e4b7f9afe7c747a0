#include "propagator/physics/detector/confined_newton.h"

#include <algorithm>
#include <cmath>

namespace propagator::physics {
namespace {

// The lower triangle L of A = L Lᵀ; false if A is not positive definite.
bool factor(const Square& a, int n, Square& lower) {
  for (int j = 0; j < n; ++j) {
    for (int i = j; i < n; ++i) {
      double sum = a[i][j];
      for (int k = 0; k < j; ++k) sum -= lower[i][k] * lower[j][k];
      if (i > j) {
        lower[i][j] = sum / lower[j][j];
      } else if (sum > 1e-14 * a[j][j]) {
        lower[j][j] = std::sqrt(sum);
      } else {
        return false;
      }
    }
  }
  return true;
}

void solve_factored(const Square& lower, int n, Unknowns& x) {
  for (int i = 0; i < n; ++i) {
    for (int k = 0; k < i; ++k) x[i] -= lower[i][k] * x[k];
    x[i] /= lower[i][i];
  }
  for (int i = n - 1; i >= 0; --i) {
    for (int k = i + 1; k < n; ++k) x[i] -= lower[k][i] * x[k];
    x[i] /= lower[i][i];
  }
}

double dot(const Unknowns& a, const Unknowns& b, int n) {
  double sum = 0;
  for (int k = 0; k < n; ++k) sum += a[k] * b[k];
  return sum;
}

double largest_diagonal(const Square& a, int n) {
  double largest = 0;
  for (int k = 0; k < n; ++k) largest = std::max(largest, std::abs(a[k][k]));
  return largest;
}

// Takes the normal's direction out of the system and puts a unit of `scale`
// there instead.
void hold(const Unknowns& normal, int n, double scale, Unknowns& gradient,
          Square& second) {
  const double along = dot(gradient, normal, n);
  Unknowns row{};  // second · normal
  for (int i = 0; i < n; ++i) row[i] = dot(second[i], normal, n);
  const double both = dot(row, normal, n);
  for (int i = 0; i < n; ++i) {
    gradient[i] -= along * normal[i];
    for (int j = 0; j < n; ++j) {
      second[i][j] += (both + scale) * normal[i] * normal[j] -
                      row[i] * normal[j] - normal[i] * row[j];
    }
  }
}

// Holds the unknowns on the walls that the descent runs against.
void hold_walls(const Bounds& bounds, const Unknowns& at, double scale,
                Unknowns& gradient, Square& second) {
  const int n = bounds.unknowns;
  std::array<Point, 3> walls;
  const int count = bounds.volume.walls({at[0], at[1], at[2]}, walls);
  for (int w = 0; w < count; ++w) {
    const Unknowns normal{walls[w][0], walls[w][1], walls[w][2], 0};
    if (dot(gradient, normal, n) < 0) hold(normal, n, scale, gradient, second);
  }
  if (n < 4) return;
  const bool low = at[3] <= 0 && gradient[3] > 0;
  const bool high = at[3] >= bounds.most_path && gradient[3] < 0;
  if (low || high) hold({0, 0, 0, 1}, n, scale, gradient, second);
}

}  // namespace

Unknowns confine(const Bounds& bounds, const Unknowns& at) {
  const Point vertex = bounds.volume.confine({at[0], at[1], at[2]});
  return {vertex[0], vertex[1], vertex[2],
          std::clamp(at[3], 0.0, bounds.most_path)};
}

Minimum minimise(const EventObjective& f, const Bounds& bounds,
                 const Unknowns& start, int64_t max_iterations,
                 double tolerance) {
  const int n = bounds.unknowns;
  Minimum best{start};
  Unknowns gradient{}, next_gradient{};
  Square second{}, next_second{};
  best.value = f.derivatives(best.at, gradient, second);
  double damping = 1e-3 * largest_diagonal(second, n);
  for (int64_t step = 0; step < max_iterations; ++step) {
    const double scale = largest_diagonal(second, n);
    Unknowns free = gradient;
    Square system = second, lower{};
    hold_walls(bounds, best.at, scale, free, system);
    Square damped = system;
    for (int tries = 0;; ++tries) {
      for (int k = 0; k < n; ++k) damped[k][k] = system[k][k] + damping;
      if (factor(damped, n, lower)) break;
      if (tries == 60) return best;
      damping = std::max(4 * damping, 1e-6 * scale);
    }
    Unknowns move = free;
    solve_factored(lower, n, move);
    Unknowns next = best.at;
    for (int k = 0; k < n; ++k) next[k] -= move[k];
    next = confine(bounds, next);
    for (int k = 0; k < n; ++k) move[k] = next[k] - best.at[k];
    double promised = -dot(gradient, move, n);
    for (int k = 0; k < n; ++k) {
      promised -= 0.5 * move[k] * dot(second[k], move, n);
    }
    const bool last = std::sqrt(dot(move, move, n)) <= tolerance ||
                      std::abs(promised) <= 1e-13 * std::abs(best.value);
    const double value = f.derivatives(next, next_gradient, next_second);
    const double gain = (best.value - value) / promised;
    const double slack = last ? 1e-12 * std::abs(best.value) : 0;
    if (value < best.value + slack) {
      best.at = next;
      best.value = value;
      gradient = next_gradient;
      second = next_second;
    }
    if (last) {
      best.converged = true;
      break;
    }
    if (promised > 0 && gain > 0.75) {
      damping *= 0.1;
    } else if (!(promised > 0 && gain > 0.25)) {
      damping = std::max(4 * damping, 1e-6 * scale);
    }
  }
  return best;
}

bool invert(const Square& matrix, int n, Square& inverse) {
  Square lower{};
  if (!factor(matrix, n, lower)) return false;
  for (int j = 0; j < n; ++j) {
    Unknowns column{};
    column[j] = 1;
    solve_factored(lower, n, column);
    for (int i = 0; i < n; ++i) inverse[i][j] = column[i];
  }
  return true;
}

}  // namespace propagator::physics
