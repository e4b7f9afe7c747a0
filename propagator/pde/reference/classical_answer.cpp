#include "propagator/pde/reference/classical_answer.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <map>

#include "propagator/core/error.h"
#include "propagator/core/stopwatch.h"
#include "propagator/pde/reference/spectral_plan.h"
#include "propagator/pde/reference/spectral_solver.h"
#include "propagator/pde/text/known_functions.h"

namespace propagator::pde {
namespace {

using torch::Tensor;

constexpr double kNone = std::numeric_limits<double>::infinity();
constexpr int64_t kPerSlab = 5;
constexpr int64_t kMostPieces = 512;   // slabs, or elements
constexpr double kNextRound = 4;       // a search's round beside the one before
constexpr double kWorthHaving = 1e-3;  // the largest error of a reference

// Of a truth that is zero everywhere, the root mean square.
double relative_error(const Tensor& answer, const Tensor& truth) {
  const double size = truth.norm().item<double>();
  const double all = std::sqrt(static_cast<double>(truth.numel()));
  return (answer - truth).norm().item<double>() / (size > 0 ? size : all);
}

// How fine a solution is: steps up from the coarsest, by the variables that
// are not marched and by the one that is.
struct Rung {
  size_t space = 0, time = 0;

  auto operator<=>(const Rung&) const = default;
};

// The resolutions there are for a problem. Elements double where one variable
// can be divided and is the only one; elsewhere its points grow.
class Ladder {
 public:
  explicit Ladder(const pde::Problem& problem)
      : problem_(problem), plan_(problem) {
    const auto others =
        std::ssize(problem.domain) - (plan_.marched >= 0 ? 1 : 0);
    if (others == 1 && plan_.divisible()) {
      space_ = {{6, 1}, {10, 1}, {16, 1}};
      for (int64_t e = 2; e <= kMostPieces; e *= 2) space_.push_back({16, e});
    } else {
      for (const int64_t n : {6, 8, 12, 16, 24, 32, 48, 64}) {
        space_.push_back({n, 1});
      }
      if (others == 0) space_.resize(1);
    }
    for (int64_t s = 1; s <= (plan_.marched < 0 ? 1 : kMostPieces); s *= 2) {
      slabs_.push_back(s);
    }
  }

  bool has(const Rung& rung) const {
    return rung.space < space_.size() && rung.time < slabs_.size();
  }
  // One step up by space or by time, where there is such a direction at all.
  std::vector<Rung> finer(const Rung& rung) const {
    std::vector<Rung> all;
    if (space_.size() > 1) all.push_back({rung.space + 1, rung.time});
    if (slabs_.size() > 1) all.push_back({rung.space, rung.time + 1});
    return all;
  }

  const std::vector<std::string>& left_out() const { return plan_.left_out; }

  SpectralOptions options(const Rung& rung) const {
    SpectralOptions o;
    o.per_axis = space_[rung.space].first;
    o.elements = space_[rung.space].second;
    o.per_slab = kPerSlab;
    o.slabs = slabs_[rung.time];
    return o;
  }

  std::string text(const Rung& rung) const {
    const auto o = options(rung);
    std::string text;
    for (int64_t x = 0; x < std::ssize(problem_.domain); ++x) {
      const bool marched = x == plan_.marched;
      const int64_t pieces = marched              ? o.slabs
                             : x == plan_.divided ? o.elements
                                                  : 1;
      text +=
          fmt::format("{}{} {}{} of {} points by {}", text.empty() ? "" : ", ",
                      pieces, marched ? "slab" : "element",
                      pieces == 1 ? "" : "s", marched ? o.per_slab : o.per_axis,
                      problem_.symbols.variables[static_cast<size_t>(x)]);
    }
    return text;
  }

 private:
  const pde::Problem& problem_;
  SpectralPlan plan_;
  std::vector<std::pair<int64_t, int64_t>> space_;  // points, elements
  std::vector<int64_t> slabs_;
};

// Solves again and again, and keeps what is best.
class Search {
 public:
  Search(const pde::Problem& problem, const Tensor& points,
         const Reference& reference, double target)
      : problem_(problem),
        points_(points),
        reference_(reference),
        target_(std::max(target, 2 * reference.error)),
        ladder_(problem) {}

  ClassicalAnswer run(double seconds) {
    const Stopwatch clock;
    auto at = attempt({});
    double round = at.seconds;
    while (at.error > target_ &&
           clock.seconds() + kNextRound * round < seconds) {
      const Stopwatch begun;
      std::vector<Attempt> finer;
      for (const auto& next : ladder_.finer(at.rung)) {
        if (ladder_.has(next)) finer.push_back(attempt(next));
      }
      if (finer.empty()) break;
      const Rung both{at.rung.space + 1, at.rung.time + 1};
      const double before = at.error;
      at = std::ranges::min(finer, {},
                            [this](const auto& x) { return rank(x); });
      // Where neither helps alone, both may.
      if (at.error > target_ && !(at.error < before / 2) && ladder_.has(both)) {
        at = attempt(both);
      }
      round = begun.seconds();
    }
    if (best_.error == kNone) {
      if (failure_) std::rethrow_exception(failure_);
      throw NumericalError("collocation finds no answer that is finite");
    }
    // Once more: the first time libraries have to wake up.
    const double again = attempt(best_.rung).seconds;
    return {best_.error, std::min(best_.seconds, again), best_.unknowns,
            ladder_.text(best_.rung)};
  }

 private:
  struct Attempt {
    Rung rung = {};
    double error = kNone;  // if it failed
    double seconds = 0;
    int64_t unknowns = 0;
  };

  // The fastest that reaches the target, or else the nearest to it.
  std::pair<bool, double> rank(const Attempt& x) const {
    const bool short_of = x.error > target_;
    return {short_of, short_of ? x.error : x.seconds};
  }

  Attempt attempt(const Rung& rung) {
    Attempt attempt{rung};
    try {
      const Stopwatch clock;
      const auto solution = solve_spectrally(problem_, ladder_.options(rung));
      attempt.seconds = clock.seconds();
      attempt.unknowns = solution.unknowns();
      const double error =
          relative_error(solution.at(points_), reference_.fields);
      if (std::isfinite(error)) attempt.error = error + reference_.error;
    } catch (const std::exception&) {
      failure_ = std::current_exception();
    }
    if (rank(attempt) < rank(best_)) best_ = attempt;
    return attempt;
  }

  const pde::Problem& problem_;
  Tensor points_;
  const Reference& reference_;
  double target_;
  Ladder ladder_;
  Attempt best_;
  std::exception_ptr failure_;
};

// Solutions at points, each found once.
class Solutions {
 public:
  Solutions(const pde::Problem& problem, const Ladder& ladder, Tensor points)
      : problem_(problem), ladder_(ladder), points_(std::move(points)) {}

  // Undefined where there is none: too coarse, perhaps.
  Tensor of(const Rung& rung) {
    if (const auto found = known_.find(rung); found != known_.end()) {
      return found->second;
    }
    Tensor fields;
    try {
      fields = solve_spectrally(problem_, ladder_.options(rung)).at(points_);
    } catch (const std::exception&) {
      failure_ = std::current_exception();
    }
    return known_[rung] = fields;
  }

  void rethrow_if_none() const {
    const bool any = std::ranges::any_of(
        known_, [](const auto& one) { return one.second.defined(); });
    if (!any && failure_) std::rethrow_exception(failure_);
  }

 private:
  const pde::Problem& problem_;
  const Ladder& ladder_;
  Tensor points_;
  std::map<Rung, Tensor> known_;
  std::exception_ptr failure_;
};

// The truth of functions, (N, functions).
Tensor functions_at(const pde::Problem& problem, const Tensor& points) {
  const auto variables = autodiff::coordinates(autodiff::Jet::constant(points));
  std::vector<Tensor> columns;
  for (const auto& function : problem.functions) {
    columns.push_back(function.truth->evaluate({variables, {}})
                          .value()
                          .expand({points.size(0)}));
  }
  return torch::stack(columns, 1);
}

}  // namespace

Reference reference_at(const pde::Problem& problem, const Tensor& points,
                       double tolerance, double seconds) {
  const auto at = points.detach().to(torch::kCPU, torch::kFloat64);
  if (!problem.exact.empty()) {
    return {problem.exact_fields(autodiff::Jet::constant(at)).value(), 0, {}};
  }
  if (!problem.functions.empty()) {
    auto known =
        reference_at(with_known_functions(problem), at, tolerance, seconds);
    known.fields = torch::cat({known.fields, functions_at(problem, at)}, 1);
    return known;
  }
  const Ladder ladder(problem);
  const Stopwatch clock;
  Solutions solutions(problem, ladder, at);
  // Up by whatever still makes a difference.
  double round = 0;
  Rung rung;
  Reference best{{}, kNone, ladder.left_out()};
  while (ladder.has(rung) && clock.seconds() + kNextRound * round < seconds) {
    const Stopwatch begun;
    const auto fields = solutions.of(rung);
    Rung next = rung;
    double error = 0;
    for (const auto& finer : ladder.finer(rung)) {
      const auto other = ladder.has(finer) ? solutions.of(finer) : Tensor();
      const double change = fields.defined() && other.defined()
                                ? relative_error(fields, other)
                                : kNone;
      error += change;
      if (change <= tolerance / 2) continue;
      next = {std::max(next.space, finer.space),
              std::max(next.time, finer.time)};
    }
    if (error < best.error) best.fields = fields, best.error = error;
    if (next == rung) return best;
    rung = next;
    round = begun.seconds();
  }
  if (best.error <= kWorthHaving) return best;
  solutions.rethrow_if_none();
  throw NumericalError(
      fmt::format("collocation finds no reference: finer solutions still "
                  "differ by more than {:.2g}",
                  std::max(tolerance, kWorthHaving)),
      "allow more, or more time");
}

ClassicalAnswer classical_answer(const pde::Problem& problem,
                                 const Tensor& points,
                                 const Reference& reference, double target,
                                 double seconds) {
  return Search(problem, points, reference, target).run(seconds);
}

}  // namespace propagator::pde
