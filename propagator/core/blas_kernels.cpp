#include "propagator/core/blas_kernels.h"

#include <dlfcn.h>

#include <cstdlib>

namespace propagator {
namespace {

constexpr const char* kChoice = "OPENBLAS_CORETYPE";
// What OpenBLAS takes for an x86 processor that it does not know.
constexpr const char* kOldest = "Prescott";

// A function of a library that is in the process, or null.
template <class Function>
Function* loaded(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

// The functions by which an OpenBLAS with kernels for many processors chooses.
struct OpenBlas {
  char* (*name)() = loaded<char*()>("gotoblas_corename");
  void (*end)() = loaded<void()>("gotoblas_dynamic_quit");
  void (*begin)() = loaded<void()>("gotoblas_dynamic_init");

  bool chooses() const {
    return name != nullptr && end != nullptr && begin != nullptr;
  }
};

// OpenBLAS's name for processors with these instructions; null for older ones.
const char* fitting_kernels() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
      __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    return "SkylakeX";
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return "Haswell";
  }
#endif
  return nullptr;
}

}  // namespace

std::string blas_kernels() {
  const OpenBlas library;
  return library.name == nullptr ? "" : library.name();
}

void choose_blas_kernels() {
  const OpenBlas library;
  const char* better = fitting_kernels();
  if (std::getenv(kChoice) != nullptr || better == nullptr ||
      !library.chooses() || blas_kernels() != kOldest) {
    return;
  }
  setenv(kChoice, better, 1);
  library.end();
  library.begin();
  unsetenv(kChoice);
}

}  // namespace propagator
