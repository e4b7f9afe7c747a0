#pragma once

#include <fmt/format.h>

#include <utility>

#include "propagator/core/observer.h"

// Lines for the observer of this thread's work.
namespace propagator::log {

template <class... Arguments>
void info(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  observer().log(Observer::Level::kInfo,
                 fmt::format(text, std::forward<Arguments>(arguments)...));
}

template <class... Arguments>
void warn(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  observer().log(Observer::Level::kWarning,
                 fmt::format(text, std::forward<Arguments>(arguments)...));
}

}  // namespace propagator::log
