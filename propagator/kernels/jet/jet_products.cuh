#pragma once

#include "propagator/kernels/jet/jet_orders.h"
#include "propagator/kernels/warp.cuh"

// Sums of products of jets by one thread, one direction after the other, so
// that it needs registers for three coefficients, whatever the jet has.
namespace propagator::kernels {

// One direction of a jet, to order 0, 1 or 2: the rows of its x_0, x_1, x_2.
// The first one also answers for the value, and one that opens its row of x_2
// for what directions share there; `sign` is that of 1·1.
template <int kOrder>
struct Along {
  int row[3];
  bool first, opens = true;
  int sign = 1;
};

template <class Value>
struct Coefficients {
  Value at[3];
};

// Jets of `Value`, `step` numbers apart, whose rows are `row` numbers apart.
template <class Value, class Real>
struct Jets {
  const Real* data;
  int step, row;

  template <int kOrder>
  __device__ Coefficients<Value> get(int n, const Along<kOrder>& along) const {
    Coefficients<Value> x;
#pragma unroll
    for (int k = 0; k <= kOrder; ++k) {
      x.at[k] = load_pack<Value>(data + n * step + along.row[k] * row);
    }
    return x;
  }
};

// z += x y: with a number, or summed over a pack.
template <class Real, int kPack>
__device__ void add_product(Real x, const Pack<Real, kPack>& y,
                            Pack<Real, kPack>& z) {
#pragma unroll
  for (int i = 0; i < kPack; ++i) z.at[i] += x * y.at[i];
}
template <class Real, int kPack>
__device__ void add_product(const Pack<Real, kPack>& x, Real y,
                            Pack<Real, kPack>& z) {
  add_product(y, x, z);
}
template <class Real, int kPack>
__device__ void add_product(const Pack<Real, kPack>& x,
                            const Pack<Real, kPack>& y, Real& z) {
#pragma unroll
  for (int i = 0; i < kPack; ++i) z += x.at[i] * y.at[i];
}

template <class Real>
__device__ Real times(int sign, Real x) {
  return sign < 0 ? -x : x;
}
template <class Real, int kPack>
__device__ Pack<Real, kPack> times(int sign, Pack<Real, kPack> x) {
#pragma unroll
  for (int i = 0; i < kPack; ++i) x.at[i] = times(sign, x.at[i]);
  return x;
}

// The pairs of coefficients that `along` answers for.
template <int kOrder, class Work>
__device__ void for_products(const Along<kOrder>& along, const Work& work) {
  if (along.first) work(0, 0, 0, 1);
  if (kOrder == 0) return;
  work(0, 1, 1, 1);
  work(1, 0, 1, 1);
  if (kOrder == 1) return;
  work(1, 1, 2, along.sign);
  if (!along.opens) return;
  work(0, 2, 2, 1);
  work(2, 0, 2, 1);
}

// z += x y through the jet.
struct Product {
  template <int kOrder, class X, class Y, class Z>
  __device__ void operator()(const Along<kOrder>& along, const X& x, const Y& y,
                             Z& z) const {
    for_products(along, [&](int a, int b, int to, int sign) {
      add_product(times(sign, x.at[a]), y.at[b], z.at[to]);
    });
  }
};

// From the gradient by a product to that by a factor, y being the other one.
struct Gradient {
  template <int kOrder, class X, class Y, class Z>
  __device__ void operator()(const Along<kOrder>& along, const X& by,
                             const Y& y, Z& z) const {
    for_products(along, [&](int a, int b, int to, int sign) {
      add_product(times(sign, by.at[to]), y.at[b], z.at[a]);
    });
  }
};

// Σ_n x_n y_n, n < count, by `multiply`: `store(row, sum)` for every row.
template <class Sum, class X, class Y, class Multiply, class Store>
__device__ void sum_products(const JetOrders& o, int count, const X& x,
                             const Y& y, const Multiply& multiply,
                             const Store& store) {
  Coefficients<Sum> sum = {};
  const auto add = [&](const auto& along) {
    sum.at[1] = {};
    if (along.opens) sum.at[2] = {};
    for (int n = 0; n < count; ++n) {
      multiply(along, x.get(n, along), y.get(n, along), sum);
    }
    const int r = along.row[1];
    if (r > 0) store(r, sum.at[1]);
    if (along.row[2] > 0 && o.closes(r)) store(along.row[2], sum.at[2]);
  };
  const int first = static_cast<int>(o.first);
  const int second = static_cast<int>(o.second);
  if (first == 0) add(Along<0>{{0, 0, 0}, true});
  for (int r = 1; r <= second; ++r) {
    add(Along<2>{{0, r, static_cast<int>(o.second_row(r))},
                 r == 1,
                 o.opens(r),
                 o.sign(r)});
  }
  for (int r = second + 1; r <= first; ++r) add(Along<1>{{0, r, 0}, r == 1});
  store(0, sum.at[0]);
}

}  // namespace propagator::kernels
