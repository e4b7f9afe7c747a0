#pragma once

#include <torch/types.h>

#include <string>

#include "propagator/core/config.h"

namespace propagator {

enum class Precision { kFloat64, kFloat32, kTF32, kBFloat16 };

// Where and how the numbers are computed: chosen once per run.
struct Runtime {
  torch::Device device = torch::kCPU;
  Precision precision = Precision::kFloat32;

  // The type of parameters and data; bf16 and tf32 keep them in float32.
  torch::ScalarType dtype() const;
  torch::TensorOptions options() const;
  // "cpu", "cuda:0"
  std::string device_name() const;
};

// Resolves `auto|cpu|cuda|cuda:N|mps`. UsageError for an unknown name,
// DeviceError for one that this build or machine lacks.
Runtime make_runtime(const std::string& device, Precision precision);

// What libtorch has as switches of the whole process, set for a runtime while
// it lives and put back afterwards: the number of CPU threads (0: as it is),
// TF32, and the library behind products on the CPU.
class RuntimeScope {
 public:
  RuntimeScope(const Runtime& runtime, int64_t threads);
  ~RuntimeScope();
  RuntimeScope(const RuntimeScope&) = delete;
  RuntimeScope& operator=(const RuntimeScope&) = delete;

 private:
  int threads_before_;
  bool tf32_before_, onednn_before_;
};

// Bytes of memory of the device: the machine's, or the GPU's.
int64_t memory_bytes(const Runtime& runtime);

// Matrix products in bfloat16 while it lives, when the runtime asks for them.
class PrecisionScope {
 public:
  explicit PrecisionScope(const Runtime& runtime);
  ~PrecisionScope();
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;

 private:
  torch::Device device_;
  bool changed_;
};

// The BLAS that libtorch's matrix products reach, and whether it is the slow
// reference implementation.
struct BlasInfo {
  std::string name;
  bool reference = false;
};
BlasInfo blas_info();

}  // namespace propagator

namespace propagator::config {

template <>
struct Names<Precision> {
  using enum Precision;
  static constexpr std::pair<Precision, const char*> all[] = {
      {kFloat64, "fp64"},
      {kFloat32, "fp32"},
      {kTF32, "tf32"},
      {kBFloat16, "bf16"}};
};

}  // namespace propagator::config
