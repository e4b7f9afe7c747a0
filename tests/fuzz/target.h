#pragma once

#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace propagator::fuzz {

// A reader of ours as a fuzzer knows it: a function of any bytes, and whole
// inputs to start from.
struct Target {
  std::string name;
  // May throw the errors that users are shown (error.h). Everything else that
  // it throws is a fault, and so is what does not read back as written.
  std::function<void(const std::string& bytes)> read;
  std::function<std::vector<std::string>()> seeds;
};

// All of them; `source` is the folder with configs/ and problems/.
std::vector<Target> all_targets(const std::filesystem::path& source);

// By what is read: tests/fuzz/<part>_targets.cpp.
std::vector<Target> text_targets(const std::filesystem::path& source);
std::vector<Target> data_targets(const std::filesystem::path& source);
std::vector<Target> run_targets();
std::vector<Target> serve_targets();

// Lets the target read; returns false if it refused the bytes with an error of
// ours.
bool accepts(const Target& target, const std::string& bytes);

// What a reader took it does not give back: a fault.
inline void expect(bool holds, const char* law) {
  if (!holds) throw std::logic_error(law);
}

// A folder in memory, for readers that take a path. It is this process's own,
// and is removed at its end.
const std::filesystem::path& scratch_folder();
// A file there, written without the care that files of users get.
std::filesystem::path scratch_file(const std::string& name,
                                   const std::string& bytes);

}  // namespace propagator::fuzz
