// propagator_fuzz TARGET [libFuzzer's options] [FOLDER]: what libFuzzer calls.
//   propagator_fuzz --list           the names of all targets
//   propagator_fuzz --seeds FOLDER   writes what each starts from:
//   FOLDER/TARGET/N

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <optional>

#include "fuzz/target.h"

namespace {

using propagator::fuzz::Target;

std::optional<Target> target;

void write_seeds(const Target& chosen, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  size_t number = 0;
  for (const auto& seed : chosen.seeds()) {
    std::ofstream(folder / std::to_string(number++), std::ios::binary) << seed;
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  const std::string word = *count > 1 ? (*arguments)[1] : "--list";
  for (const auto& known : propagator::fuzz::all_targets(PROPAGATOR_SOURCE)) {
    if (word == "--list") fmt::print("{}\n", known.name);
    if (word == "--seeds") {
      write_seeds(known, std::filesystem::path((*arguments)[2]) / known.name);
    }
    if (word == known.name) target = known;
  }
  if (!target) std::exit(word.starts_with("--") ? 0 : 2);
  (*arguments)[1] = (*arguments)[0];  // libFuzzer must not see the name
  ++*arguments;
  --*count;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  accepts(*target, {reinterpret_cast<const char*>(data), size});
  return 0;
}
