#pragma once

#include <utility>

#include "propagator/capi/propagator.h"

namespace propagator::capi {

// Keeps the message and hint of an exception for pg_last_error of this thread,
// without allocating, and gives the status that belongs to it.
pg_status keep_error(const std::exception& error) noexcept;
pg_status keep_unknown_error() noexcept;
void forget_error() noexcept;
const char* last_error() noexcept;

// Does the work of one call. Whatever it throws ends here.
template <class Work>
pg_status guarded(Work&& work) noexcept {
  forget_error();
  try {
    std::forward<Work>(work)();
    return PG_OK;
  } catch (const std::exception& error) {
    return keep_error(error);
  } catch (...) {
    return keep_unknown_error();
  }
}

// UsageError names the function and its argument unless the pointer is one.
void expect_pointer(const char* function, const char* argument,
                    const void* pointer);

}  // namespace propagator::capi
