#include "propagator/core/error.h"

#include <c10/util/Exception.h>

#include <new>

namespace propagator {
namespace {

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  const std::string what = error.what();
  return what.find("out of memory") != std::string::npos ||
         what.find("can't allocate memory") != std::string::npos ||
         what.find("DefaultCPUAllocator") != std::string::npos;
}

}  // namespace

ExitCode exit_code(const std::exception& error) {
  if (const auto* known = dynamic_cast<const RuntimeError*>(&error)) {
    return known->code();
  }
  if (dynamic_cast<const std::invalid_argument*>(&error) != nullptr) {
    return ExitCode::kUsage;
  }
  if (is_out_of_memory(error)) return ExitCode::kDevice;
  return ExitCode::kFailure;
}

std::string hint(const std::exception& error) {
  if (const auto* hinted = dynamic_cast<const Hinted*>(&error)) {
    return hinted->hint();
  }
  if (is_out_of_memory(error)) {
    return "ask for less at a time: smaller batches, fewer cases or points";
  }
  return "";
}

}  // namespace propagator
