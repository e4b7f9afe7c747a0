#pragma once

#include <filesystem>
#include <string>

#include "propagator/core/config.h"

namespace propagator::run {

// The name of a configuration that may be given by its former one.
std::string present_config_name(const std::string& name);

// The file that `config` means: a path, or one of those names.
std::filesystem::path find_config(const std::string& config);

// That configuration. Where `config` is a file of data, by its ending, or a
// folder of them, it is one that forecasts the fields in there, and says
// nothing else.
config::Document open_config(const std::string& config);

}  // namespace propagator::run
