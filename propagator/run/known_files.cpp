// Needs no library but the standard one: cli/start.cpp is linked to it alone.
#include "propagator/run/known_files.h"

#include <fstream>
#include <vector>

namespace propagator::run {
namespace {

namespace fs = std::filesystem;

constexpr const char* kComment = "# ";
constexpr const char* kGroup = "# group: ";

// The YAML files of a folder that comes with the program, by name.
std::map<std::string, fs::path> files_of(const std::string& folder_name) {
  std::vector<fs::path> folders{folder_name};
  std::error_code error;
  const auto program = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    const auto prefix = program.parent_path().parent_path();
    // Installed: prefix/bin, prefix/libexec and prefix/share; in a build:
    // build/bin and build/libexec.
    folders.push_back(prefix / "share/propagator" / folder_name);
    folders.push_back(prefix.parent_path() / folder_name);
  }
  std::map<std::string, fs::path> configs;
  for (const auto& folder : folders) {
    for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
      if (entry.path().extension() != ".yaml") continue;
      auto name = entry.path().lexically_relative(folder);
      configs.try_emplace(name.replace_extension().string(), entry.path());
    }
  }
  return configs;
}

}  // namespace

std::map<std::string, fs::path> known_configs() { return files_of("configs"); }
std::map<std::string, fs::path> known_problems() {
  return files_of("problems");
}

std::string first_comment(const fs::path& file) {
  std::string line;
  std::ifstream stream(file);
  std::getline(stream, line);
  return line.starts_with(kComment) ? line.substr(2) : "";
}

std::string group_of(const fs::path& file) {
  std::string line;
  std::ifstream stream(file);
  std::getline(stream, line);
  std::getline(stream, line);
  return line.starts_with(kGroup) ? line.substr(std::string(kGroup).size())
                                  : "others";
}

}  // namespace propagator::run
