#pragma once

#include <torch/utils.h>

#include <utility>
#include <vector>

#include "propagator/autodiff/jet.h"

namespace propagator::autodiff {

// What was computed from points that are asked for again and again, as training
// does until it draws others: of those in the domain, and on its faces. On a
// GPU, where comparing points would make the host wait, nothing is kept.
template <class T>
class JetMemo {
 public:
  template <class Make>
  T of(const Jet& points, Make&& make) {
    if (!points.rows().is_cpu() || points.rows().requires_grad()) return make();
    for (const auto& [asked, value] : known_) {
      if (asked.layout() == points.layout() &&
          asked.rows().sizes() == points.rows().sizes() &&
          torch::equal(asked.rows(), points.rows())) {
        return value;
      }
    }
    auto made = make();
    if (known_.size() == kMostKnown) known_.erase(known_.begin());
    // They may be a view of points that are drawn again in place.
    known_.emplace_back(Jet(points.rows().clone(), points.layout()), made);
    return made;
  }
  void forget() { known_.clear(); }

 private:
  static constexpr size_t kMostKnown = 2;

  std::vector<std::pair<Jet, T>> known_;
};

}  // namespace propagator::autodiff
