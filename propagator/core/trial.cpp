#include "propagator/core/trial.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

namespace propagator {
namespace {

void limit(int resource, rlim_t most) {
  const rlimit both{most, most};
  setrlimit(resource, &both);
}

// Address space that this process has, in bytes; 0 if nobody tells.
rlim_t address_space() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

[[noreturn]] void run_and_exit(const std::function<void()>& work,
                               const TrialLimits& limits) {
  for (const int end : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM}) {
    signal(end, SIG_DFL);
  }
  alarm(limits.seconds);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, limits.computing_seconds);
  if (const rlim_t now = address_space(); now > 0) {
    limit(RLIMIT_AS, now + limits.bytes);
  }
  try {
    work();
    _exit(0);
  } catch (...) {
    _exit(1);
  }
}

}  // namespace

bool ends_well(const std::function<void()>& work, const TrialLimits& limits) {
  const pid_t copy = fork();
  if (copy < 0) return true;
  if (copy == 0) run_and_exit(work, limits);
  int status = 0;
  while (waitpid(copy, &status, 0) < 0) {
    if (errno != EINTR) return true;  // somebody else has waited for it
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace propagator
