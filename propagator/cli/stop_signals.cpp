#include "propagator/cli/stop_signals.h"

#include <time.h>
#include <unistd.h>

#include <cstring>

namespace propagator::cli {
namespace {

constexpr double kSameRequest = 0.2;  // s

volatile sig_atomic_t g_signal = 0;
const char* volatile g_note = nullptr;
double g_asked_at = 0;  // s; only the handler touches it, and never nested

double steady_seconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);  // safe in a handler
  return static_cast<double>(now.tv_sec) + 1e-9 * now.tv_nsec;
}

extern "C" void on_signal(int number) {
  if (g_signal != 0) {
    if (steady_seconds() < g_asked_at + kSameRequest) return;
    _exit(128 + number);
  }
  g_asked_at = steady_seconds();
  g_signal = number;
  const auto written = write(STDERR_FILENO, g_note, std::strlen(g_note));
  static_cast<void>(written);  // nothing can be done about it here
}

}  // namespace

StopSignals::StopSignals(const char* note) {
  g_note = note;
  g_signal = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaddset(&action.sa_mask, SIGINT);  // one of them at a time
  sigaddset(&action.sa_mask, SIGTERM);
  sigaction(SIGINT, &action, &interrupt_before_);
  sigaction(SIGTERM, &action, &terminate_before_);
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &interrupt_before_, nullptr);
  sigaction(SIGTERM, &terminate_before_, nullptr);
}

int StopSignals::requested() { return g_signal; }

}  // namespace propagator::cli
