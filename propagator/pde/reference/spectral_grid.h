#pragma once

#include <torch/types.h>

#include <vector>

#include "propagator/autodiff/derivative.h"

namespace propagator::pde {

// The polynomials of all fields on one element, a box of D variables, as
// products of polynomials of each variable. Where n points take the equation
// and c conditions hold a field, the field has n + c unknowns along the
// variable: its values at Chebyshev nodes, the equation being asked at Gauss
// points. Along the marched variable the equation is asked at Radau points,
// and the unknowns are the values at the start and at those points, then the
// c - 1 derivatives at the start. Derivative k is there the polynomial through
// its own start and the slopes of derivative k - 1 at the points, which is the
// Radau method for the system of first order, and as stable.
class SpectralGrid {
 public:
  struct Axis {
    int64_t points;
    double length;
    bool marched;
  };
  // Where rows of a system stand along a variable: at the points of the
  // equation, at a field's nodes (not of the marched variable), at an end.
  enum class Place { kPoints, kNodes, kLow, kHigh };
  using Places = std::vector<Place>;  // one for each variable

  SpectralGrid() = default;
  // `conditions` of each field on each variable.
  SpectralGrid(std::vector<Axis> axes,
               std::vector<std::vector<int64_t>> conditions);

  int64_t unknowns() const { return starts_.back(); }  // m
  int64_t fields() const { return std::ssize(conditions_); }
  int64_t variables() const { return std::ssize(axes_); }
  const Axis& axis(int64_t variable) const {
    return axes_[static_cast<size_t>(variable)];
  }
  // One field of u, (…, m): (…, n_1, …, n_D).
  torch::Tensor field(const torch::Tensor& u, int64_t f) const;

  // Along one variable, from a field's unknowns to its derivative at places in
  // [-1, 1]: (P, n).
  torch::Tensor matrix(int64_t f, int64_t variable, int64_t order,
                       const torch::Tensor& at) const;
  // From all unknowns to a derivative at all places, whose nodes are those of
  // the field `owner`; and where these are, from the low corner: (P, m) and
  // (P, D).
  torch::Tensor derivative(const autodiff::Derivative& derivative,
                           const Places& places, int64_t owner) const;
  torch::Tensor points(const Places& places, int64_t owner) const;

 private:
  int64_t conditions(int64_t f, int64_t variable) const;
  torch::Tensor nodes(int64_t f, int64_t variable) const;
  torch::Tensor along(int64_t variable, Place place, int64_t owner) const;

  std::vector<Axis> axes_;
  std::vector<std::vector<int64_t>> conditions_;
  std::vector<int64_t> starts_ = {0};  // of fields among the unknowns
};

}  // namespace propagator::pde
