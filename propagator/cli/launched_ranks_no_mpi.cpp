#include <fmt/format.h>

#include "propagator/cli/launched_count.h"
#include "propagator/cli/launched_ranks.h"
#include "propagator/core/error.h"

namespace propagator::cli {

bool has_mpi() { return false; }

std::unique_ptr<Ranks> launched_ranks() {
  const int count = launched_count();
  if (count <= 1) return nullptr;
  throw UsageError(
      fmt::format("{} processes were started, and this build has no MPI by "
                  "which they could work together",
                  count),
      "build it where Open MPI is installed (Debian: libopenmpi-dev), or start "
      "one process");
}

}  // namespace propagator::cli
