#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "propagator/core/files.h"

namespace propagator {

// The whole path of the program of that name on PATH; empty if there is none.
fs::path find_program(const std::string& name);

// A text as one word of a POSIX shell, in quotes where it needs them.
std::string shell_word(const std::string& text);

// Another program at work, without a shell in between. What it prints, on
// stdout and stderr together, is kept for its end.
//
//   Process gnuplot(find_program("gnuplot"), {"loss.gp"},
//   "runs/quick/figures"); if (gnuplot.wait().status != 0) …
class Process {
 public:
  // FileError if it cannot be started.
  Process(const fs::path& program, const std::vector<std::string>& arguments,
          const fs::path& folder = ".");
  ~Process();  // an unfinished program is killed
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;

  // To its standard input. False once it no longer reads.
  bool write(std::string_view bytes);

  struct Outcome {
    int status;          // exit code, or 128 + signal
    std::string output;  // what it printed
  };
  Outcome wait();  // closes its standard input first

 private:
  pid_t id_ = -1;
  int input_ = -1;   // our end of its standard input
  int output_ = -1;  // a file without a name
};

}  // namespace propagator
