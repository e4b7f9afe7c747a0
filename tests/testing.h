#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "propagator/core/observer.h"

namespace propagator::testing {

// How far two computations of the same numbers may be apart.
struct Tolerance {
  double relative, absolute;
};
inline constexpr Tolerance kFloat32{1e-5, 1e-6};
inline constexpr Tolerance kFloat64{1e-12, 1e-13};
// Central differences of step 1e-6 in float64 against a gradient.
inline constexpr Tolerance kDifferences{1e-6, 1e-8};

// |a - b| ≤ absolute + relative · |b| everywhere; a failure prints the worst
// element. NaN never passes.
::testing::AssertionResult near(const torch::Tensor& a, const torch::Tensor& b,
                                Tolerance tolerance);

// The gradient of a scalar function at `x` against central differences, in
// float64; `x` must have that type.
::testing::AssertionResult gradient_is_right(
    const std::function<torch::Tensor(const torch::Tensor&)>& f,
    const torch::Tensor& x, Tolerance tolerance = kDifferences);

inline double square(double x) { return x * x; }
double mean_of(const torch::Tensor& x);

// Random numbers on [-1, 1] in float64, the same at every run.
torch::Tensor random(torch::IntArrayRef shape, const std::string& name);

// The devices that this machine has a kernel for: the CPU and, where there is
// one, a CUDA device.
std::vector<torch::Device> devices();

// What `compute(device, type)` gives, on every device in float64 and float32,
// against `plain`.
void expect_near_everywhere(const std::function<std::vector<torch::Tensor>(
                                torch::Device, torch::ScalarType)>& compute,
                            const std::vector<torch::Tensor>& plain,
                            Tolerance in_float32);

// An empty folder that is removed at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const {
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

// While it lives only programs in these folders are found (as in $PATH); by
// default none, as on a bare machine.
class OnlyPath {
 public:
  explicit OnlyPath(const std::string& folders = "/nonexistent");
  ~OnlyPath();

 private:
  std::string before_;
};

// The bytes of base64 text.
std::string from_base64(const std::string& text);

// An observer that keeps what it is told.
struct Lines : Observer {
  void log(Level level, const std::string& line) override {
    (level == Level::kWarning ? warnings : infos).push_back(line);
  }
  std::vector<std::string> warnings, infos;
};

// The message of the exception of type E that `f` throws; a failure and "" if
// it throws none.
template <class E, class F>
std::string thrown(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "expected an exception";
  return "";
}

}  // namespace propagator::testing
