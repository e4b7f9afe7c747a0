#pragma once

#include <memory>

#include "propagator/core/ranks.h"

namespace propagator::cli {

// Whether this build has MPI.
bool has_mpi();

// The ranks that mpirun or srun have started; null, without a call of MPI, for
// a process alone. UsageError if several processes were started that cannot
// work together. When they go, each waits for the others.
std::unique_ptr<Ranks> launched_ranks();

}  // namespace propagator::cli
