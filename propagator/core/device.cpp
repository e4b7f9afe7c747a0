#include "propagator/core/device.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <omp.h>
#include <torch/cuda.h>
#include <torch/types.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "propagator/core/error.h"
#include "propagator/core/ranks.h"
#include "propagator/core/torch_compat.h"

namespace propagator {
namespace {

bool has_mps() { return at::hasMPS(); }

torch::Device resolve(const std::string& name) {
  if (name == "auto") {
    if (torch::cuda::is_available()) return torch::Device(torch::kCUDA, 0);
    return torch::kCPU;
  }
  const bool known =
      name == "cpu" || name == "mps" || name == "cuda" ||
      (name.starts_with("cuda:") && name.size() > 5 &&
       name.find_first_not_of("0123456789", 5) == std::string::npos &&
       name.size() < 9);
  if (!known) {
    throw UsageError(
        fmt::format("[device] expected auto, cpu, cuda, cuda:N or mps, got "
                    "'{}'",
                    name));
  }
  if (name == "cpu") return torch::kCPU;
  if (name == "mps") {
    if (!has_mps()) throw DeviceError("[device] this build has no MPS device");
    return torch::Device(torch::kMPS);
  }
  const int index = name == "cuda" ? 0 : std::stoi(name.substr(5));
  const auto count = static_cast<int>(torch::cuda::device_count());
  if (!torch::cuda::is_available()) {
    throw DeviceError("[device] no CUDA device is available",
                      "use --device cpu; `propagator info` shows what this "
                      "build and machine have");
  }
  if (index >= count) {
    throw DeviceError(fmt::format("[device] expected cuda:0 to cuda:{}, got {}",
                                  count - 1, name));
  }
  return torch::Device(torch::kCUDA, static_cast<c10::DeviceIndex>(index));
}

}  // namespace

torch::ScalarType Runtime::dtype() const {
  return precision == Precision::kFloat64 ? torch::kFloat64 : torch::kFloat32;
}

torch::TensorOptions Runtime::options() const {
  return torch::TensorOptions().device(device).dtype(dtype());
}

std::string Runtime::device_name() const { return device.str(); }

Runtime make_runtime(const std::string& device, Precision precision) {
  Runtime runtime{resolve(device), precision};
  if (precision == Precision::kTF32 && !runtime.device.is_cuda()) {
    throw UsageError(fmt::format("[precision] tf32 needs a CUDA device, got {}",
                                 runtime.device.str()),
                     "use --precision fp32");
  }
  if (runtime.device.is_mps() && precision == Precision::kFloat64) {
    throw UsageError("[precision] MPS has no fp64", "use --precision fp32");
  }
  return runtime;
}

RuntimeScope::RuntimeScope(const Runtime& runtime,
                           std::optional<int64_t> threads)
    : threads_before_(at::get_num_threads()),
      tf32_before_(tf32_is_on()),
      onednn_before_(onednn_is_on()) {
  if (threads) {
    at::set_num_threads(*threads > 0 ? static_cast<int>(*threads)
                                     : all_cores());
  }
  set_tf32(runtime.precision == Precision::kTF32);
  choose_cpu_library();
}

RuntimeScope::~RuntimeScope() {
  if (at::get_num_threads() != threads_before_) {
    at::set_num_threads(threads_before_);
  }
  set_tf32(tf32_before_);
  set_onednn(onednn_before_);
}

void wait_for(const Runtime& runtime) {
  if (runtime.device.is_cuda()) {
    torch::cuda::synchronize(runtime.device.index());
  } else if (!runtime.device.is_cpu()) {
    // Reading a number back waits for everything queued before it.
    torch::zeros({1}, runtime.options()).item<float>();
  }
}

int all_cores() {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return omp_get_max_threads();
  if (!ranks().are_several()) return omp_get_num_procs();
  // A launcher may have given this rank cores of its own, or none.
  const auto cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  return std::clamp(cores / ranks().on_this_machine(), 1, omp_get_num_procs());
}

int64_t memory_bytes(const Runtime& runtime) {
  const int64_t host = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) *
                       static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  if (!runtime.device.is_cuda()) return host / ranks().on_this_machine();
  // libtorch's C++ interface does not say; the CUDA runtime that it brought
  // into the process does, and needs no CUDA headers here.
  using MemoryInfo = int (*)(size_t * free, size_t * total);
  const auto info =
      reinterpret_cast<MemoryInfo>(dlsym(RTLD_DEFAULT, "cudaMemGetInfo"));
  size_t free = 0, total = 0;
  if (info == nullptr || info(&free, &total) != 0) {
    throw DeviceError("[device] the CUDA runtime does not tell its memory",
                      "set data.storage to memory or stream");
  }
  return static_cast<int64_t>(total);
}

PrecisionScope::PrecisionScope(const Runtime& runtime)
    : device_(runtime.device),
      changed_(runtime.precision == Precision::kBFloat16 &&
               !autocast_enabled(runtime.device)) {
  if (changed_) set_autocast(device_, true);
}

PrecisionScope::~PrecisionScope() {
  if (!changed_) return;
  set_autocast(device_, false);
  at::autocast::clear_cache();
}

BlasInfo blas_info() {
  // Debian's libtorch calls whatever library the `libblas.so.3` alternative
  // points at; builds with MKL or their own OpenBLAS say so in their summary.
  void* symbol = dlsym(RTLD_DEFAULT, "sgemm_");
  Dl_info where{};
  if (symbol != nullptr && dladdr(symbol, &where) != 0 &&
      where.dli_fname != nullptr) {
    std::error_code error;
    const auto path = std::filesystem::canonical(where.dli_fname, error);
    const std::string name = error ? where.dli_fname : path.string();
    const bool reference = name.find("openblas") == std::string::npos &&
                           name.find("/blas/libblas.so") != std::string::npos;
    return {name, reference};
  }
  const std::string summary = at::get_mkl_version();
  if (at::hasMKL()) return {summary.substr(0, summary.find('\n')), false};
  return {"built into libtorch", false};
}

}  // namespace propagator
