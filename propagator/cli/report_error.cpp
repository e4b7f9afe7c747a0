#include <c10/util/Exception.h>

#include <cstdio>

#include "propagator/cli/commands.h"
#include "propagator/core/error.h"
#include "propagator/core/plain_text.h"

namespace propagator::cli {
namespace {

// libtorch appends a C++ stack to its messages; the first line says it all.
// Ours may have a picture of the place below it.
std::string message(const std::exception& error) {
  const std::string text = error.what();
  return dynamic_cast<const c10::Error*>(&error) == nullptr
             ? text
             : text.substr(0, text.find('\n'));
}

}  // namespace

int report_error(const std::exception& error) {
  std::fflush(stdout);  // what was said before stands before
  // They may quote a file that commands the terminal.
  const auto say = [](const char* kind, const std::string& text) {
    fmt::print(stderr, "{}: {}\n", kind, plain_text(text, /*kept=*/"\n\t"));
  };
  say("error", message(error));
  const auto advice = hint(error);
  if (!advice.empty()) say("hint", advice);
  return static_cast<int>(exit_code(error));
}

}  // namespace propagator::cli
