#pragma once

#include "propagator/kernels/jet/jet_orders.h"

// log G of one pair of tokens and its derivatives by the parameters, as kernels
// compute them: what the CPU's and CUDA's share. green_function.h has the
// formulas; the same in plain tensor operations defines them.
namespace propagator::kernels {

enum class GreenForm {
  kNone,
  kHeat,
  kWave1,
  kWave2,
  kWave3,
  kPoisson1,
  kPoisson2,
  kPoisson3,
};

struct GreenSettings {
  GreenForm form = GreenForm::kNone;
  int dimensions = 1;
  bool full = true;  // or over the peak
  double core = 0, radius = 0, time_core = 0;
};

// Whether nothing is seen before its time.
PROPAGATOR_HOST_DEVICE inline bool is_causal(GreenForm form) {
  return form == GreenForm::kHeat || form == GreenForm::kWave1 ||
         form == GreenForm::kWave2 || form == GreenForm::kWave3;
}

// What a kernel reads of parameters: a or c, then b.
inline constexpr int kGreenParameters = 4;

// Where a token is; axes that are not there are 0. A hidden key has the time
// NaN. A global query comes after everything, t = ∞, and a global key before, t
// = -∞, so that Δt is ∞ for such pairs and for no others.
template <class Real>
struct GreenPlace {
  Real x, y, z, t;
};

// `Math` has log, sqrt, divide, infinity and pick(which, a, b) for Real; the
// last is no branch where loops should vectorise.
template <class Real, class Math>
struct Green {
  Real rate, velocity[3], core, radius, time_core;
  Real quarter, power, constant;  // 1 / 4a, d / 2 or 0; what pairs share

  PROPAGATOR_HOST_DEVICE Green(const GreenSettings& s, const Real* parameters)
      : rate(parameters[0]),
        velocity{parameters[1], parameters[2], parameters[3]},
        core(static_cast<Real>(s.core)),
        radius(static_cast<Real>(s.radius)),
        time_core(static_cast<Real>(s.time_core)),
        quarter(Real(0.25) / rate),
        power(s.full ? Real(0.5) * static_cast<Real>(s.dimensions) : Real(0)),
        constant(shared(s)) {}

  // Γ of a query less a key, or -∞.
  template <GreenForm kForm>
  PROPAGATOR_HOST_DEVICE Real logit(const GreenPlace<Real>& query,
                                    const GreenPlace<Real>& key,
                                    bool full) const {
    const Real kNever = -Math::infinity();
    const Real dt = query.t - key.t;
    if constexpr (kForm == GreenForm::kNone) {
      return Math::pick(dt == dt, Real(0), kNever);
    }
    const Pair p = pair<kForm>(query, key);
    const Real inside =
        Math::pick(visible<kForm>(p), value<kForm>(p, full), kNever);
    const Real seen = Math::pick(dt == Math::infinity(), Real(0), inside);
    return Math::pick(dt == dt, seen, kNever);
  }

  // ∂Γ/∂(a or c, b); 0 where Γ is not of the pair's places.
  template <GreenForm kForm>
  PROPAGATOR_HOST_DEVICE GreenPlace<Real> slopes(const GreenPlace<Real>& query,
                                                 const GreenPlace<Real>& key,
                                                 bool full) const {
    const Pair p = pair<kForm>(query, key);
    const bool counts =
        (query.t - key.t < Math::infinity()) & visible<kForm>(p);
    const auto if_counts = [&](Real x) {
      return Math::pick(counts, x, Real(0));
    };
    const Real first = if_counts(slope<kForm>(p, full));
    if constexpr (kForm != GreenForm::kHeat) return {0, 0, 0, first};
    const Real moving = Math::divide(2 * quarter * p.dt, p.time);
    return {if_counts(moving * p.x), if_counts(moving * p.y),
            if_counts(moving * p.z), first};
  }

 private:
  // Δt, T and Δx, for heat less b Δt.
  struct Pair {
    Real dt, time, x, y, z, square;
  };

  template <GreenForm kForm>
  PROPAGATOR_HOST_DEVICE Pair pair(const GreenPlace<Real>& query,
                                   const GreenPlace<Real>& key) const {
    Pair p;
    p.dt = query.t - key.t;
    p.time = p.dt + time_core;
    p.x = query.x - key.x;
    p.y = query.y - key.y;
    p.z = query.z - key.z;
    if constexpr (kForm == GreenForm::kHeat) {
      p.x -= velocity[0] * p.dt;
      p.y -= velocity[1] * p.dt;
      p.z -= velocity[2] * p.dt;
    }
    p.square = p.x * p.x + p.y * p.y + p.z * p.z;
    return p;
  }

  template <GreenForm kForm>
  PROPAGATOR_HOST_DEVICE bool visible(const Pair& p) const {
    if constexpr (kForm == GreenForm::kPoisson3) return true;
    if constexpr (kForm == GreenForm::kPoisson1 ||
                  kForm == GreenForm::kPoisson2) {
      return p.square + core * core < radius * radius;
    }
    const bool later = (p.dt >= 0) & (p.time > 0);
    if constexpr (kForm == GreenForm::kHeat) return later;
    const Real reach = rate * p.time;
    const bool in_cone = later & (p.square <= reach * reach);
    if constexpr (kForm != GreenForm::kWave3) return in_cone;
    const Real inner = reach - core;
    return in_cone & ((inner <= 0) | (p.square >= inner * inner));
  }

  template <GreenForm kForm>
  PROPAGATOR_HOST_DEVICE Real value(const Pair& p, bool full) const {
    if constexpr (kForm == GreenForm::kHeat) {
      return constant - Math::divide(p.square * quarter, p.time) -
             power * Math::log(p.time);
    }
    if constexpr (kForm == GreenForm::kWave1) return constant;
    if constexpr (kForm == GreenForm::kWave2) {
      const Real reach2 = rate * rate * p.time * p.time;
      const Real root = Math::sqrt(reach2 - p.square + core * core);
      const Real over = Math::sqrt(reach2 + core * core) + core;
      return constant + Math::log(full ? Math::divide(over, p.time * root)
                                       : Math::divide(core, root));
    }
    if constexpr (kForm == GreenForm::kWave3) {
      const Real reach = rate * p.time;
      const Real width = Math::pick(core < reach, core, reach);
      const Real part = width * (3 * reach * (reach - width) + width * width);
      return full ? constant + Math::log(Math::divide(p.time, part)) : Real(0);
    }
    const Real square = p.square + core * core;
    if constexpr (kForm == GreenForm::kPoisson1) {
      return constant + Math::log(radius - Math::sqrt(square));
    }
    if constexpr (kForm == GreenForm::kPoisson2) {
      return constant +
             Math::log(Math::log(Math::divide(radius, Math::sqrt(square))));
    }
    return constant - Real(0.5) * Math::log(square);
  }

  // By a or c.
  template <GreenForm kForm>
  PROPAGATOR_HOST_DEVICE Real slope(const Pair& p, bool full) const {
    if constexpr (kForm == GreenForm::kHeat) {
      return 4 * quarter * (Math::divide(p.square * quarter, p.time) - power);
    }
    if constexpr (kForm == GreenForm::kWave1) {
      return full ? -Math::divide(Real(1), rate) : Real(0);
    }
    if constexpr (kForm == GreenForm::kWave2) {
      const Real change = rate * p.time * p.time;  // of c²T² / 2
      const Real reach2 = rate * change;
      const Real by_root =
          -Math::divide(change, reach2 - p.square + core * core);
      const Real outer = Math::sqrt(reach2 + core * core);
      const Real by_rest = Math::divide(change, outer * (outer + core)) -
                           Math::divide(Real(2), rate);
      return full ? by_root + by_rest : by_root;
    }
    if constexpr (kForm == GreenForm::kWave3) {
      const Real reach = rate * p.time;
      const Real width = Math::pick(core < reach, core, reach);
      return full ? -Math::divide(3 * p.time * (2 * reach - width),
                                  3 * reach * (reach - width) + width * width)
                  : Real(0);
    }
    return 0;
  }

  PROPAGATOR_HOST_DEVICE Real shared(const GreenSettings& s) const {
    const Real kPi = static_cast<Real>(3.14159265358979323846);
    switch (s.form) {
      case GreenForm::kNone:
        return 0;
      case GreenForm::kHeat:
        return s.full ? -power * Math::log(4 * kPi * rate) : Real(0);
      case GreenForm::kWave1:
        return s.full ? -Math::log(2 * rate) : Real(0);
      case GreenForm::kWave2:
        return s.full ? -Math::log(2 * kPi * rate * rate) : Real(0);
      case GreenForm::kWave3:
        return -Math::log(4 * kPi / 3);
      case GreenForm::kPoisson1:
        return -Math::log(s.full ? Real(2) : radius - core);
      case GreenForm::kPoisson2:
        return -Math::log(s.full ? 2 * kPi : Math::log(radius / core));
      case GreenForm::kPoisson3:
        return -Math::log(s.full ? 4 * kPi : 1 / core);
    }
    return 0;
  }
};

// Calls work(form) with the form as a type.
template <GreenForm kForm>
struct GreenFormType {
  static constexpr GreenForm value = kForm;
};
template <class Work>
PROPAGATOR_HOST_DEVICE void with_form(GreenForm form, Work&& work) {
  switch (form) {
    case GreenForm::kNone:
      return work(GreenFormType<GreenForm::kNone>{});
    case GreenForm::kHeat:
      return work(GreenFormType<GreenForm::kHeat>{});
    case GreenForm::kWave1:
      return work(GreenFormType<GreenForm::kWave1>{});
    case GreenForm::kWave2:
      return work(GreenFormType<GreenForm::kWave2>{});
    case GreenForm::kWave3:
      return work(GreenFormType<GreenForm::kWave3>{});
    case GreenForm::kPoisson1:
      return work(GreenFormType<GreenForm::kPoisson1>{});
    case GreenForm::kPoisson2:
      return work(GreenFormType<GreenForm::kPoisson2>{});
    case GreenForm::kPoisson3:
      return work(GreenFormType<GreenForm::kPoisson3>{});
  }
}

}  // namespace propagator::kernels
