#pragma once

#include <cmath>
#include <cstring>
#include <type_traits>

#include "propagator/kernels/jet/jet_orders.h"

// One state of one channel of a scan (jet_scan.h), through a jet: what the
// CPU's kernel and CUDA's share. A `Value` is a number, or a vector of numbers
// for channels side by side.
namespace propagator::kernels {

// The most that a lane keeps.
inline constexpr int kScanDirections = 3, kScanTokens = 16;

// x (M, N, T, I), delta alike, b (M, N, T, S), c alike, a (S, I), d (I).
template <class Real>
struct Scan {
  int64_t windows, tokens, inner, states;  // N, T, I, S
  JetOrders orders;
  const Real *x, *delta, *a, *b, *c, *d;

  // Of row 0; rows are so far apart.
  PROPAGATOR_HOST_DEVICE int64_t channel(int64_t n, int t, int64_t i) const {
    return (n * tokens + t) * inner + i;
  }
  PROPAGATOR_HOST_DEVICE int64_t state(int64_t n, int t, int64_t s) const {
    return (n * tokens + t) * states + s;
  }
  PROPAGATOR_HOST_DEVICE int64_t channel_row() const {
    return windows * tokens * inner;
  }
  PROPAGATOR_HOST_DEVICE int64_t state_row() const {
    return windows * tokens * states;
  }
};

// A jet: x_0, x_1 of each direction, x_2 of each, whether they are there or
// not, so that every index is known to the compiler and all are in registers.
// A sum of x_2 is that of direction 1.
template <class Value>
struct Slots {
  Value at[1 + 2 * kScanDirections] = {};
};

template <class Work>
PROPAGATOR_HOST_DEVICE void for_directions(const Work& work) {
  static_assert(kScanDirections == 3);
  work(1);
  work(2);
  work(3);
}

// `work(slot, row)` for each that is there.
template <class Work>
PROPAGATOR_HOST_DEVICE void for_slots(const JetOrders& o, const Work& work) {
  work(0, int64_t{0});
  for_directions([&](int r) {
    if (r <= o.first) work(r, int64_t{r});
    if (r <= (o.summed ? 1 : o.second)) {
      work(kScanDirections + r, o.first + r);
    }
  });
}

// As for_products of jet_orders.h, for slots.
template <class Work>
PROPAGATOR_HOST_DEVICE void for_slot_products(const JetOrders& o,
                                              const Work& work) {
  work(0, 0, 0, 1);
  for_directions([&](int r) {
    if (r > o.first) return;
    work(0, r, r, 1);
    work(r, 0, r, 1);
    if (r > o.second) return;
    if (o.summed) {
      constexpr int kSum = kScanDirections + 1;
      work(r, r, kSum, o.sign(r));
      if (r > 1) return;
      work(0, kSum, kSum, 1);
      work(kSum, 0, kSum, 1);
    } else {
      const int x2 = kScanDirections + r;
      work(r, r, x2, 1);
      work(0, x2, x2, 1);
      work(x2, 0, x2, 1);
    }
  });
}

template <class Value, class Real>
PROPAGATOR_HOST_DEVICE Value load_value(const Real* from) {
  if constexpr (std::is_same_v<Value, Real>) {
    return *from;
  } else {
    Value value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
}

template <class Value, class Real>
PROPAGATOR_HOST_DEVICE void store_value(const Value& value, Real* to) {
  if constexpr (std::is_same_v<Value, Real>) {
    *to = value;
  } else {
    std::memcpy(to, &value, sizeof value);
  }
}

template <class Value, class Real>
PROPAGATOR_HOST_DEVICE Slots<Value> load_slots(const JetOrders& o,
                                               const Real* from, int64_t row) {
  Slots<Value> x;
  for_slots(o, [&](int slot, int64_t m) {
    x.at[slot] = load_value<Value>(from + m * row);
  });
  return x;
}

template <class Value, class Real>
PROPAGATOR_HOST_DEVICE void store_slots(const JetOrders& o,
                                        const Slots<Value>& x, Real* to,
                                        int64_t row) {
  for_slots(
      o, [&](int slot, int64_t m) { store_value(x.at[slot], to + m * row); });
}

template <class Value>
PROPAGATOR_HOST_DEVICE Value signed_value(int sign, const Value& x) {
  return sign < 0 ? -x : x;
}

// z += x y; a factor may be the same for all channels of a vector.
template <class X, class Y, class Value>
PROPAGATOR_HOST_DEVICE void add_product(const JetOrders& o, const Slots<X>& x,
                                        const Slots<Y>& y, Slots<Value>& z) {
  for_slot_products(o, [&](int a, int b, int to, int sign) {
    z.at[to] += signed_value(sign, x.at[a]) * y.at[b];
  });
}

// From the gradient by a product to that by a factor, y being the other one.
template <class Value, class Y>
PROPAGATOR_HOST_DEVICE void add_gradient(const JetOrders& o,
                                         const Slots<Value>& by,
                                         const Slots<Y>& y, Slots<Value>& z) {
  for_slot_products(o, [&](int a, int b, int to, int sign) {
    z.at[a] += signed_value(sign, by.at[to]) * y.at[b];
  });
}

template <class Value>
PROPAGATOR_HOST_DEVICE Value exponential(const Value& x) {
  if constexpr (std::is_arithmetic_v<Value>) {
    return std::exp(x);
  } else {
    Value y = {};
    constexpr int kCount = sizeof(Value) / sizeof(x[0]);
    for (int k = 0; k < kCount; ++k) y[k] = std::exp(x[k]);
    return y;
  }
}

// e = exp(a δ):  e_1 = a e_0 δ_1,  e_2 = a e_0 (δ_2 + a Q / 2),  Q = Σ ±δ_1².
template <class Value>
class ScanDecay {
 public:
  PROPAGATOR_HOST_DEVICE ScanDecay(const JetOrders& o,
                                   const Slots<Value>& delta, const Value& a)
      : o_(o), delta_(delta), a_(a) {
    e_.at[0] = exponential(a * delta.at[0]);
    const Value slope = a * e_.at[0];
    for_slots(o, [&](int slot, int64_t row) {
      if (row > 0) e_.at[slot] = slope * delta.at[slot];
    });
    for_squares([&](int, int x2, const Value& square) {
      e_.at[x2] += slope * a * square / 2;
    });
  }

  PROPAGATOR_HOST_DEVICE const Slots<Value>& value() const { return e_; }

  // Adds to the gradient by δ what one by e brings; returns that by a.
  PROPAGATOR_HOST_DEVICE Value backward(const Slots<Value>& by,
                                        Slots<Value>& delta) const {
    const Value slope = a_ * e_.at[0];
    Value all = {}, others = {};
    for_slots(o_, [&](int slot, int64_t row) {
      all += by.at[slot] * e_.at[slot];
      if (row == 0) return;
      delta.at[slot] += slope * by.at[slot];
      others += by.at[slot] * delta_.at[slot];
    });
    for_squares([&](int r, int x2, const Value& square) {
      // ∂(±δ_1² / 2) = ±δ_1.
      delta.at[r] +=
          slope * a_ * by.at[x2] * signed_value(o_.sign(r), delta_.at[r]);
      others += by.at[x2] * a_ * square;
    });
    delta.at[0] += a_ * all;
    return delta_.at[0] * all + e_.at[0] * others;
  }

 private:
  // `work(r, slot of x_2, ±δ_1²)` for each direction that has an x_2.
  template <class Work>
  PROPAGATOR_HOST_DEVICE void for_squares(const Work& work) const {
    for_directions([&](int r) {
      if (r > o_.second) return;
      const Value square = delta_.at[r] * delta_.at[r];
      const Value counted = signed_value(o_.sign(r), square);
      if (o_.summed) {
        work(r, kScanDirections + 1, counted);
      } else {
        work(r, kScanDirections + r, counted);
      }
    });
  }

  JetOrders o_;
  Slots<Value> delta_, e_;
  Value a_;
};

// State s of the channels from i on, in window n:
//   h_t = exp(δ_t a) h_{t-1} + δ_t x_t b_t.
template <class Value, class Real>
class ScanLane {
 public:
  PROPAGATOR_HOST_DEVICE ScanLane(const Scan<Real>& scan, int64_t n, int64_t i,
                                  int64_t s)
      : scan_(scan),
        n_(n),
        i_(i),
        s_(s),
        a_(load_value<Value>(scan.a + s * scan.inner + i)) {}

  // `work(t, h_t)` for every token.
  template <class Work>
  PROPAGATOR_HOST_DEVICE void forward(const Work& work) const {
    Slots<Value> h;
    for (int t = 0; t < scan_.tokens; ++t) {
      const auto delta = channels(scan_.delta, t);
      Slots<Value> drive, next;
      add_product(scan_.orders, delta, channels(scan_.x, t), drive);
      add_product(scan_.orders, drive, states(scan_.b, t), next);
      if (t > 0) {
        const ScanDecay<Value> decay(scan_.orders, delta, a_);
        add_product(scan_.orders, decay.value(), h, next);
      }
      h = next;
      work(t, h);
    }
  }

  // What the gradient `y` of the answers says of token t: by x and δ, of this
  // state alone, and by b and c, of these channels.
  struct Gradients {
    Slots<Value> x, delta, b, c;
  };

  // `work(t, gradients)` for every token, the last one first; returns the
  // gradient by a.
  template <class Work>
  PROPAGATOR_HOST_DEVICE Value backward(const Real* y, const Work& work) const {
    const auto& o = scan_.orders;
    Slots<Value> h[kScanTokens];
    forward([&](int t, const Slots<Value>& state) { h[t] = state; });
    Slots<Value> by;  // h_t
    Value by_a = {};
    for (int t = static_cast<int>(scan_.tokens) - 1; t >= 0; --t) {
      const auto x = channels(scan_.x, t), delta = channels(scan_.delta, t);
      const auto by_y = channels(y, t);
      Gradients d;
      add_gradient(o, by_y, states(scan_.c, t), by);
      add_gradient(o, by_y, h[t], d.c);
      Slots<Value> drive, by_drive;
      add_product(o, delta, x, drive);
      add_gradient(o, by, drive, d.b);
      add_gradient(o, by, states(scan_.b, t), by_drive);
      add_gradient(o, by_drive, delta, d.x);
      add_gradient(o, by_drive, x, d.delta);
      if (t > 0) {
        const ScanDecay<Value> decay(o, delta, a_);
        Slots<Value> by_decay, before;
        add_gradient(o, by, h[t - 1], by_decay);
        by_a += decay.backward(by_decay, d.delta);
        add_gradient(o, by, decay.value(), before);
        by = before;
      }
      work(t, d);
    }
    return by_a;
  }

 private:
  PROPAGATOR_HOST_DEVICE Slots<Value> channels(const Real* from, int t) const {
    return load_slots<Value>(scan_.orders, from + scan_.channel(n_, t, i_),
                             scan_.channel_row());
  }
  PROPAGATOR_HOST_DEVICE Slots<Real> states(const Real* from, int t) const {
    return load_slots<Real>(scan_.orders, from + scan_.state(n_, t, s_),
                            scan_.state_row());
  }

  const Scan<Real>& scan_;
  int64_t n_, i_, s_;
  Value a_;
};

// The answers of the channels from i on, to y (M, N, T, I).
template <class Value, class Real>
PROPAGATOR_HOST_DEVICE void scan_channels(const Scan<Real>& scan, int64_t n,
                                          int64_t i, Real* y) {
  const auto& o = scan.orders;
  const int64_t row = scan.channel_row();
  const Value d = load_value<Value>(scan.d + i);
  for (int t = 0; t < scan.tokens; ++t) {
    const int64_t at = scan.channel(n, t, i);
    auto sum = load_slots<Value>(o, scan.x + at, row);
    for_slots(o, [&](int slot, int64_t) { sum.at[slot] *= d; });
    store_slots(o, sum, y + at, row);
  }
  for (int64_t s = 0; s < scan.states; ++s) {
    const ScanLane<Value, Real> lane(scan, n, i, s);
    lane.forward([&](int t, const Slots<Value>& h) {
      const auto c =
          load_slots<Real>(o, scan.c + scan.state(n, t, s), scan.state_row());
      const int64_t at = scan.channel(n, t, i);
      auto sum = load_slots<Value>(o, y + at, row);
      add_product(o, h, c, sum);
      store_slots(o, sum, y + at, row);
    });
  }
}

// Gradients by x and delta; by a (N, S, I) and d (N, I) of each window.
template <class Real>
struct ScanChannelGradients {
  Real *x, *delta, *a, *d;
};

// Those of the channels from i on, from the gradient by y. `work(t, s,
// gradients)` may read the rest.
template <class Value, class Real, class Work>
PROPAGATOR_HOST_DEVICE void scan_channels_backward(
    const Scan<Real>& scan, int64_t n, int64_t i, const Real* y,
    const ScanChannelGradients<Real>& to, const Work& work) {
  const auto& o = scan.orders;
  const int64_t row = scan.channel_row();
  const Value d = load_value<Value>(scan.d + i);
  Value by_d = {};
  for (int t = 0; t < scan.tokens; ++t) {
    const int64_t at = scan.channel(n, t, i);
    const auto x = load_slots<Value>(o, scan.x + at, row);
    auto by = load_slots<Value>(o, y + at, row);
    for_slots(o, [&](int slot, int64_t) {
      by_d += by.at[slot] * x.at[slot];
      by.at[slot] *= d;
    });
    store_slots(o, by, to.x + at, row);
    store_slots(o, Slots<Value>(), to.delta + at, row);
  }
  store_value(by_d, to.d + n * scan.inner + i);
  for (int64_t s = 0; s < scan.states; ++s) {
    const ScanLane<Value, Real> lane(scan, n, i, s);
    const Value by_a = lane.backward(y, [&](int t, const auto& gradients) {
      const int64_t at = scan.channel(n, t, i);
      auto x = load_slots<Value>(o, to.x + at, row);
      auto delta = load_slots<Value>(o, to.delta + at, row);
      for_slots(o, [&](int slot, int64_t) {
        x.at[slot] += gradients.x.at[slot];
        delta.at[slot] += gradients.delta.at[slot];
      });
      store_slots(o, x, to.x + at, row);
      store_slots(o, delta, to.delta + at, row);
      work(t, s, gradients);
    });
    store_value(by_a, to.a + (n * scan.states + s) * scan.inner + i);
  }
}

}  // namespace propagator::kernels
