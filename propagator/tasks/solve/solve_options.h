#pragma once

#include <string>
#include <vector>

#include "propagator/core/config.h"
#include "propagator/pde/residual/balance.h"
#include "propagator/pde/residual/collocation.h"
#include "propagator/pde/text/problem.h"

namespace propagator::tasks {

struct ProblemOptions {
  pde::ProblemText text;
  std::vector<std::string> tables;  // files

  // The text, with the numbers of these files.
  pde::ProblemText with_tables() const;
  void describe(config::Schema& schema);
};

// Where a solution is validated: at the centres of cells, or, as many, at
// points of a Sobol sequence, no two of which share a coordinate. A front
// that is thinner than a cell has some of these.
enum class ValidationPoints { kCentres, kSobol };

struct PointOptions {
  pde::Sampling sampling = pde::Sampling::kSobol;
  int64_t per_axis = 31;
  int64_t window = 2;
  double window_step = 1e-4;
  int64_t validation_per_axis = 20;
  ValidationPoints validation = ValidationPoints::kCentres;
  int64_t resample_every = 3;
  bool adaptive = true;
  int64_t candidates = 4;

  void describe(config::Schema& schema);
};

// Of time, with a network for each.
struct SlabOptions {
  int64_t most = 1;
  int64_t first = 1;
  double tolerance = 1e-4;
  double trial = 0.05;

  void describe(config::Schema& schema);
  void validate() const;
};

struct SolveLossOptions {
  double equation = 1;
  double initial = 100;
  double boundary = 100;
  pde::Balance balance = pde::Balance::kFixed;
  int64_t balance_every = 5;
  double balance_rate = 0.5;
  double causality = 0;
  int64_t slabs = 20;

  void describe(config::Schema& schema);
};

struct SolveEvalOptions {
  int64_t per_axis = 101;
  std::vector<std::string> quantities;
  bool classical = true;

  void describe(config::Schema& schema);
};

// Which initial and periodic conditions are hard constraints, where that can
// be. kFaces: Dirichlet ones too. kAll: as kYes, and initial ones whose
// corners, or jumps where it is periodic, the solution then keeps.
enum class HardConstraints { kNo, kYes, kFaces, kAll };

}  // namespace propagator::tasks

namespace propagator::config {

template <>
struct Names<tasks::ValidationPoints> {
  using enum tasks::ValidationPoints;
  static constexpr std::pair<tasks::ValidationPoints, const char*> all[] = {
      {kCentres, "centres"}, {kSobol, "sobol"}};
};

template <>
struct Names<tasks::HardConstraints> {
  using enum tasks::HardConstraints;
  static constexpr std::pair<tasks::HardConstraints, const char*> all[] = {
      {kNo, "no"}, {kYes, "yes"}, {kFaces, "faces"}, {kAll, "all"}};
};

}  // namespace propagator::config
