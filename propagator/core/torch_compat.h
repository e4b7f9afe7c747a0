#pragma once

// The one place that knows libtorch's versions: Debian 12 ships 1.13, GPU
// machines have 2.x, and the code above compiles against both.

#include <ATen/autocast_mode.h>
#include <c10/util/Exception.h>
#include <torch/version.h>

namespace propagator {

#if TORCH_VERSION_MAJOR >= 2
inline bool autocast_enabled(torch::Device device) {
  return at::autocast::is_autocast_enabled(device.type());
}
inline void set_autocast(torch::Device device, bool on) {
  at::autocast::set_autocast_enabled(device.type(), on);
  at::autocast::set_autocast_dtype(device.type(), torch::kBFloat16);
}

struct NoWarnings : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};
using WarningScope = c10::WarningUtils::WarningHandlerGuard;
#else
inline bool autocast_enabled(torch::Device device) {
  return device.is_cpu() ? at::autocast::is_cpu_enabled()
                         : at::autocast::is_enabled();
}
inline void set_autocast(torch::Device device, bool on) {
  if (device.is_cpu()) {
    at::autocast::set_cpu_enabled(on);
    at::autocast::set_autocast_cpu_dtype(torch::kBFloat16);
  } else {
    at::autocast::set_enabled(on);
    at::autocast::set_autocast_gpu_dtype(torch::kBFloat16);
  }
}

struct NoWarnings : c10::WarningHandler {
  void process(const c10::SourceLocation&, const std::string&,
               bool /*verbatim*/) override {}
};
using WarningScope = c10::Warning::WarningHandlerGuard;
#endif

// While it lives libtorch prints no warnings of this thread's work.
class SilentWarnings {
 private:
  NoWarnings none_;
  WarningScope scope_{&none_};
};

inline bool onednn_is_on() { return at::globalContext().userEnabledMkldnn(); }
inline void set_onednn(bool on) {
  at::globalContext().setUserEnabledMkldnn(on);
}

// On ARM the oneDNN of Debian's libtorch has only reference kernels: batched
// products through it are four times slower than through OpenBLAS, and bfloat16
// ones fail.
inline void choose_cpu_library() {
#if TORCH_VERSION_MAJOR < 2 && defined(__aarch64__)
  set_onednn(false);
#endif
}

// Matrix products in TF32 on CUDA, or in full float32.
inline void set_tf32(bool on) {
  at::globalContext().setAllowTF32CuBLAS(on);
  at::globalContext().setAllowTF32CuDNN(on);
}

inline bool tf32_is_on() { return at::globalContext().allowTF32CuBLAS(); }

// So while it lives.
class Tf32Scope {
 public:
  explicit Tf32Scope(bool on) : before_(tf32_is_on()) { set_tf32(on); }
  ~Tf32Scope() { set_tf32(before_); }
  Tf32Scope(const Tf32Scope&) = delete;
  Tf32Scope& operator=(const Tf32Scope&) = delete;

 private:
  bool before_;
};

}  // namespace propagator
