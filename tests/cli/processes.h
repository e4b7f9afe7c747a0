#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "command.h"
#include "propagator/core/files.h"

namespace propagator::testing {

// Starts a command, found on PATH; its output goes to a file.
inline pid_t start_command(const std::vector<std::string>& command,
                           const fs::path& output = "/dev/null") {
  const pid_t child = fork();
  if (child != 0) return child;
  const int file = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  dup2(file, STDOUT_FILENO);
  dup2(file, STDERR_FILENO);
  std::vector<char*> words;
  for (const auto& word : command) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  execvp(words.front(), words.data());
  _exit(127);
}

// Starts the program so.
inline pid_t start(const std::vector<std::string>& arguments,
                   const fs::path& output = "/dev/null") {
  std::vector<std::string> command{program()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return start_command(command, output);
}

// Waits until it is so; a failure if it is not within a minute.
inline void wait_until(const std::function<bool()>& is_so) {
  for (int tries = 0; tries < 3000; ++tries) {
    if (is_so()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ADD_FAILURE() << "waited for a minute";
}

// The exit code of a process, or 128 + the signal that killed it.
inline int status_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// All that a run's newest checkpoint has learned, as bytes.
inline std::string weights(const fs::path& run) {
  fs::path last;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints")) {
    last = std::max(last, entry.path());
  }
  return read_file(last / "model.safetensors") +
         read_file(last / "optimizer.safetensors") +
         read_file(last / "best.safetensors");
}

}  // namespace propagator::testing
