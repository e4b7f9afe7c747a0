#include "propagator/cli/stop_signals.h"

#include <unistd.h>

namespace propagator::cli {
namespace {

volatile sig_atomic_t g_signal = 0;

extern "C" void on_signal(int number) {
  if (g_signal != 0) _exit(128 + number);
  g_signal = number;
  constexpr char kNote[] =
      "\nstopping after this step; once more stops at once\n";
  const auto written = write(STDERR_FILENO, kNote, sizeof kNote - 1);
  static_cast<void>(written);  // nothing can be done about it here
}

}  // namespace

StopSignals::StopSignals() {
  g_signal = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, &interrupt_before_);
  sigaction(SIGTERM, &action, &terminate_before_);
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &interrupt_before_, nullptr);
  sigaction(SIGTERM, &terminate_before_, nullptr);
}

int StopSignals::requested() { return g_signal; }

}  // namespace propagator::cli
