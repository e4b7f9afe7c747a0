#include "propagator/cli/launched_count.h"

#include <cstdlib>
#include <initializer_list>

namespace propagator::cli {

int launched_count() {
  // Of Open MPI's mpirun, of MPICH's and srun --mpi=pmi2, of any srun.
  for (const char* name :
       {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const char* count = std::getenv(name);
    if (count != nullptr) return std::atoi(count);
  }
  return 1;
}

}  // namespace propagator::cli
