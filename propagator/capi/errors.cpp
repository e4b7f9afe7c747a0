#include "propagator/capi/errors.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "propagator/core/error.h"

namespace propagator::capi {
namespace {

// Longer messages are cut: a buffer cannot fail when memory is short.
thread_local std::array<char, 4096> t_message{};

// Behind what is there already, from `at` on; where it ends.
size_t append(size_t at, std::string_view text) {
  const size_t count = std::min(text.size(), t_message.size() - 1 - at);
  std::copy_n(text.begin(), count, t_message.begin() + at);
  t_message[at + count] = '\0';
  return at + count;
}

}  // namespace

pg_status keep_error(const std::exception& error) noexcept try {
  // libtorch appends a C++ stack to its own messages.
  const auto* theirs = dynamic_cast<const c10::Error*>(&error);
  const size_t end = append(
      0, theirs != nullptr ? theirs->what_without_backtrace() : error.what());
  if (const auto advice = hint(error); !advice.empty()) {
    append(append(end, "\nhint: "), advice);
  }
  return static_cast<pg_status>(exit_code(error));
} catch (...) {  // no memory for the hint
  return PG_DEVICE;
}

pg_status keep_unknown_error() noexcept {
  append(0, "an exception that is none of the C++ library's");
  return PG_FAILURE;
}

void forget_error() noexcept { t_message[0] = '\0'; }

const char* last_error() noexcept { return t_message.data(); }

void expect_pointer(const char* function, const char* argument,
                    const void* pointer) {
  if (pointer != nullptr) return;
  throw UsageError(
      fmt::format("[{}] expected {}, got a null pointer", function, argument));
}

}  // namespace propagator::capi
