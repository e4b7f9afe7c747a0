#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace propagator::testing {

inline std::string program() { return std::getenv("PROPAGATOR"); }
inline std::string tiny() {
  return std::string(std::getenv("PROPAGATOR_CONFIGS")) + "/forecast/tiny.yaml";
}

struct Outcome {
  int status;          // exit code, or 128 + signal
  std::string output;  // stdout and stderr together
};

// Runs a shell command and waits for it.
inline Outcome shell(const std::string& command) {
  Outcome outcome{-1, ""};
  FILE* pipe = popen(("(" + command + ") 2>&1").c_str(), "r");
  char buffer[4096];
  while (const size_t got = fread(buffer, 1, sizeof buffer, pipe)) {
    outcome.output.append(buffer, got);
  }
  const int status = pclose(pipe);
  outcome.status =
      WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

// Runs the program with these arguments.
inline Outcome propagator(const std::string& arguments) {
  return shell(program() + " " + arguments);
}

}  // namespace propagator::testing
