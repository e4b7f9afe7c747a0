#include "propagator/capi/host_scope.h"

#include <ATen/Parallel.h>
#include <omp.h>

namespace propagator::capi {

HostScope::HostScope(int64_t threads) : threads_(omp_get_max_threads()) {
  at::get_num_threads();  // the first one in a thread sets a number of its own
  omp_set_num_threads(threads > 0 ? static_cast<int>(threads) : threads_);
  if (traps_are_on() || std::fegetround() != FE_TONEAREST) hold_workers();
  std::fegetenv(&environment_);
  std::fesetenv(FE_DFL_ENV);
}

HostScope::~HostScope() {
  if (!workers_.empty()) release_workers();
  std::fesetenv(&environment_);
  omp_set_num_threads(threads_);
}

void HostScope::hold_workers() {
  workers_.resize(static_cast<size_t>(omp_get_max_threads()));
#pragma omp parallel
  {
    const auto n = static_cast<size_t>(omp_get_thread_num());
    if (n > 0 && n < workers_.size()) {
      workers_[n].held = std::fegetenv(&workers_[n].environment) == 0;
      std::fesetenv(FE_DFL_ENV);
    }
  }
}

void HostScope::release_workers() {
  omp_set_num_threads(static_cast<int>(workers_.size()));
#pragma omp parallel
  {
    const auto n = static_cast<size_t>(omp_get_thread_num());
    if (n > 0 && n < workers_.size() && workers_[n].held) {
      std::fesetenv(&workers_[n].environment);
    }
  }
}

}  // namespace propagator::capi
