#pragma once

#include <string>
#include <vector>

#include "propagator/models/fitted_net.h"
#include "propagator/models/uses_snapshots.h"

namespace propagator::data {
struct Gridded;
}

namespace propagator::models {

struct PodOptions : FieldNetOptions, UsesSnapshots {
  std::string file = {};
  std::string simulator = {};
  std::vector<std::string> simulation = {};
  int64_t modes = 12;
  int64_t intervals = 40;

  void describe(config::Schema& schema) override;
  void validate(const FieldDomain& domain) const override;
  bool windowed() const override { return false; }
  bool needs_readings() const override { return true; }
  bool is_fitted() const override { return true; }
  int64_t smoothness() const override { return 2; }  // of cubic splines
  Source snapshots() const override { return {file, simulator, simulation}; }
  std::shared_ptr<FieldNet> make(const FieldDomain& domain) const override;
};

// Proper orthogonal decomposition ("gappy POD"): with modes φ of whole
// snapshots of all fields together, each field in units of its standard
// deviation,
//   q(x, t) = q̄(x) + Σ_k a_k(t) φ_k(x),   a_k(t) = Σ_j c_kj B_j(t),
// B cubic B-splines of time. Modes are scaled so that a_k has a mean square of
// 1 in the snapshots; c is the ridge regression on the readings whose ridge has
// the least leave-one-out error. Between the snapshots' places modes are cubic
// splines. Fields that are never read come out too, since modes have them all.
class Pod : public FittedNet {
 public:
  Pod(const PodOptions& options, const FieldDomain& domain);

 private:
  // The mean and the modes, (K, places, F), of the snapshots.
  struct Modes {
    torch::Tensor values;
    double share = 0;  // of the snapshots' variance
  };
  Modes modes_of(const data::Gridded& snapshots) const;
  void expect_cover(const data::Gridded& snapshots) const;
  // Sets axes and modes, in the units of the readings.
  void take_modes(const data::Gridded& snapshots,
                  const autodiff::Observations& read);
  void fit(const autodiff::Observations& read) override;
  autodiff::Jet answer(const autodiff::Jet& points) override;
  int64_t width() const override;
  // At points (R; N, D): (R; N, K, F), and (R; N, J).
  autodiff::Jet modes_at(const autodiff::Jet& points) const;
  autodiff::Jet times_at(const autodiff::Jet& points) const;

  PodOptions options_;
  std::vector<int64_t> space_;  // variables but time
};

}  // namespace propagator::models
