#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace propagator::run {

// The configurations that come with the program or lie in ./configs, by name
// (forecast/quick), and the problems (wave).
std::map<std::string, std::filesystem::path> known_configs();
std::map<std::string, std::filesystem::path> known_problems();

// What a configuration says that it is, in its first line; empty if nothing.
std::string first_comment(const std::filesystem::path& file);
// What a problem is listed under, in its second line, `# group: flow`; "others"
// if it says nothing.
std::string group_of(const std::filesystem::path& file);

}  // namespace propagator::run
