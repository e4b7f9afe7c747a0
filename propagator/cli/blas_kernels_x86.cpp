#include <dlfcn.h>

#include <cstring>

#include "propagator/cli/blas_kernels.h"

namespace propagator::cli {
namespace {

// What it takes for a processor that it does not know.
constexpr const char* kFallback = "Prescott";

const char* fitting_kernels() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512cd")) {
    return "SkylakeX";
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return "Haswell";
  }
  return nullptr;
}

}  // namespace

const char* better_blas_kernels() {
  const auto* fitting = fitting_kernels();
  if (fitting == nullptr) return nullptr;
  // The one that libtorch will load, if it is not another BLAS.
  void* library = dlopen("libopenblas.so.0", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  using CoreName = const char* (*)();
  const auto chosen =
      reinterpret_cast<CoreName>(dlsym(library, "openblas_get_corename"));
  const bool falls_back =
      chosen != nullptr && std::strcmp(chosen(), kFallback) == 0;
  dlclose(library);
  return falls_back ? fitting : nullptr;
}

}  // namespace propagator::cli
