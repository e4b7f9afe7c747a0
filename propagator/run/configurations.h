#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "propagator/core/config.h"

namespace propagator::run {

// The configurations that come with the program or lie in ./configs, by name
// (forecast/quick), and the problems (wave).
std::map<std::string, std::filesystem::path> known_configs();
std::map<std::string, std::filesystem::path> known_problems();

// The name of a configuration that may be given by its former one.
std::string present_config_name(const std::string& name);

// The file that `config` means: a path, or one of those names.
std::filesystem::path find_config(const std::string& config);

// That configuration. Where `config` is a file of data, by its ending, or a
// folder of them, it is one that forecasts the fields in there, and says
// nothing else.
config::Document open_config(const std::string& config);

}  // namespace propagator::run
