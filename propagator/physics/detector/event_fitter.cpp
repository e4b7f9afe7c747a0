#include "propagator/physics/detector/event_fitter.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "propagator/physics/detector/exact_vertices.h"

namespace propagator::physics {
namespace {

constexpr double kApart = 1e-3;     // m, between minima that differ
constexpr double kBroadJitter = 5;  // ns
constexpr int64_t kBroadStarts = 3;
constexpr int64_t kFewHits = 8;       // all subsets of them: 70 at most
constexpr int64_t kManySubsets = 20;  // of more hits, at random
constexpr double kInfinity = std::numeric_limits<double>::infinity();

void add(const Minimum& found, std::vector<Minimum>& minima) {
  const auto near = [&](const Minimum& m) {
    return std::hypot(m.at[0] - found.at[0], m.at[1] - found.at[1],
                      m.at[2] - found.at[2]) <= kApart;
  };
  const auto same = std::ranges::find_if(minima, near);
  if (same == minima.end()) {
    minima.push_back(found);
  } else if (found.value < same->value) {
    *same = found;
  }
}

void put_best_first(std::vector<Minimum>& minima) {
  std::iter_swap(minima.begin(),
                 std::ranges::min_element(minima, {}, &Minimum::value));
}

}  // namespace

EventFitter::EventFitter(const Detector& detector,
                         const EventFitOptions& options)
    : options_(options),
      bounds_{detector.volume(),
              detector.options().window * detector.light_speed(),
              detector.time_known() ? 3 : 4},
      event_(detector),
      residuals_(event_, bounds_.unknowns),
      broad_(event_, detector, bounds_.unknowns,
             std::max(kBroadJitter, detector.options().jitter)),
      likelihood_(event_, detector, bounds_.unknowns,
                  std::max(options.least_jitter, detector.options().jitter)),
      dark_(detector.options().dark > 0),
      paths_(detector.sensors()) {
  const auto& centre = detector.volume().centre();
  const auto& half = detector.volume().half();
  for (int k = 0; k < kLattice; ++k) {
    const std::array<int, 3> place{k / 9 - 1, k / 3 % 3 - 1, k % 3 - 1};
    for (int j = 0; j < 3; ++j) {
      lattice_[k][j] = centre[j] + 0.6 * half[j] * place[j];
    }
  }
}

const std::vector<Minimum>& EventFitter::fit_times() {
  choose_starts(residuals_, options_.starts);
  by_times_.clear();
  for (int64_t k = 0; k < options_.starts; ++k) {
    add(descend(residuals_, lattice_[order_[k]]), by_times_);
  }
  if (event_.hits() == unknowns()) {
    std::array<Unknowns, 2> exact;
    const int solutions = exact_vertices(event_, first_hits(), exact);
    for (int k = 0; k < solutions; ++k) {
      add(descend(residuals_, confine(bounds_, exact[k])), by_times_);
    }
  }
  put_best_first(by_times_);
  return by_times_;
}

const std::vector<Minimum>& EventFitter::fit_likelihood() {
  by_likelihood_.clear();
  by_broad_.clear();
  for (const auto& start : fit_times()) {
    add(descend(likelihood_, start.at), by_likelihood_);
  }
  const int64_t starts = std::min(options_.starts, kBroadStarts);
  choose_starts(broad_, starts);
  for (int64_t k = 0; k < starts; ++k) {
    add(descend(broad_, lattice_[order_[k]]), by_broad_);
  }
  for (const auto& start : by_broad_) {
    add(descend(likelihood_, start.at), by_likelihood_);
  }
  if (dark_) {
    for (const auto& start : choose_subsets()) {
      if (start.value == kInfinity) continue;
      add(descend(likelihood_, start.at), by_likelihood_);
    }
  }
  put_best_first(by_likelihood_);
  return by_likelihood_;
}

void EventFitter::choose_starts(const EventObjective& f, int64_t count) {
  std::array<double, kLattice> values;
  for (int k = 0; k < kLattice; ++k) {
    if (unknowns() > 3) lattice_[k][3] = median_path(lattice_[k]);
    values[k] = f.value(lattice_[k]);
  }
  std::iota(order_.begin(), order_.end(), 0);
  std::partial_sort(order_.begin(), order_.begin() + count, order_.end(),
                    [&](int a, int b) {
                      return std::pair(values[a], a) < std::pair(values[b], b);
                    });
}

std::span<const int64_t> EventFitter::first_hits() {
  std::iota(subset_.begin(), subset_.end(), 0);
  return std::span(subset_).first(unknowns());
}

const std::array<Minimum, EventFitter::kSubsets>&
EventFitter::choose_subsets() {
  for (auto& best : chosen_) best = {{}, kInfinity};
  const int64_t hits = event_.hits(), n = unknowns();
  if (hits <= kFewHits) {
    for (unsigned mask = 0; mask < 1u << hits; ++mask) {
      if (std::popcount(mask) != n) continue;
      int64_t count = 0;
      for (int64_t i = 0; i < hits; ++i) {
        if (mask >> i & 1) subset_[count++] = i;
      }
      try_subset();
    }
  } else {
    for (int64_t row = 0; row < kManySubsets; ++row) {
      for (int64_t k = 0, draw = 0; k < n; ++draw) {
        subset_[k] = stream_.below(hits, row, draw);
        const auto end = subset_.begin() + k;
        if (std::find(subset_.begin(), end, *end) == end) ++k;
      }
      try_subset();
    }
  }
  return chosen_;
}

void EventFitter::try_subset() {
  std::array<Unknowns, 2> exact;
  const int solutions =
      exact_vertices(event_, std::span(subset_).first(unknowns()), exact);
  for (int k = 0; k < solutions; ++k) {
    const auto at = confine(bounds_, exact[k]);
    const double value = likelihood_.value(at);
    if (!(value < chosen_.back().value)) continue;
    chosen_.back() = {at, value};
    for (size_t j = chosen_.size() - 1; j > 0; --j) {
      if (chosen_[j].value < chosen_[j - 1].value) {
        std::swap(chosen_[j], chosen_[j - 1]);
      }
    }
  }
}

double EventFitter::median_path(const Unknowns& at) {
  const int64_t hits = event_.hits();
  for (int64_t i = 0; i < hits; ++i) {
    const auto& s = event_.sensor(i);
    paths_[i] =
        event_.path(i) - std::hypot(at[0] - s[0], at[1] - s[1], at[2] - s[2]);
  }
  const auto middle = paths_.begin() + hits / 2;
  std::nth_element(paths_.begin(), middle, paths_.begin() + hits);
  return std::clamp(*middle, 0.0, bounds_.most_path);
}

}  // namespace propagator::physics
