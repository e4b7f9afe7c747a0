#pragma once

#include <torch/types.h>

#include <optional>
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
// it lives and put back afterwards: TF32, the library behind products on the
// CPU, and, where it is given, the number of CPU threads (0: `all_cores`).
class RuntimeScope {
 public:
  explicit RuntimeScope(const Runtime& runtime,
                        std::optional<int64_t> threads = std::nullopt);
  ~RuntimeScope();
  RuntimeScope(const RuntimeScope&) = delete;
  RuntimeScope& operator=(const RuntimeScope&) = delete;

 private:
  int threads_before_;
  bool tf32_before_, onednn_before_;
};

// Returns when all that was asked of the device is done.
void wait_for(const Runtime& runtime);

// How many threads this process can run at once, or what OMP_NUM_THREADS asks
// for; of several ranks, its share of the machine's. libtorch by itself leaves
// out the second thread of each core.
int all_cores();

// Bytes of memory of the device: the machine's, of several ranks there its
// share, or the GPU's.
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
