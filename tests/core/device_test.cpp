#include "propagator/core/device.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <torch/cuda.h>
#include <torch/types.h>

#include <sched.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "propagator/core/error.h"
#include "propagator/core/machine.h"
#include "propagator/core/peak_memory.h"
#include "testing.h"

namespace propagator {
namespace {

using testing::thrown;

const torch::Device kCpu = torch::kCPU;

// 1 + 2⁻⁹ and its product with one: float32 holds it, bfloat16 rounds it to 1.
constexpr double kFine = 1 + 1.0 / 512;

torch::Tensor product() {
  const auto a = torch::full({4, 4}, kFine, torch::kFloat32);
  return torch::matmul(a, torch::eye(4));
}

bool is_fine(const torch::Tensor& x) {
  return x.scalar_type() == torch::kFloat32 && x.eq(kFine).all().item<bool>();
}

bool is_coarse(const torch::Tensor& x) {
  return x.scalar_type() == torch::kBFloat16 && x.eq(1).all().item<bool>();
}

TEST(CoreDevice, PeakMemoryOfTheCpuIsNotKnown) {
  EXPECT_FALSE(peak_memory({}).has_value());
}

TEST(CoreDevice, PeakMemoryCountsWhatIsFreedToo) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const auto runtime = make_runtime("cuda", Precision::kFloat32);
  torch::zeros({1}, runtime.options());  // the allocator begins with its first
  begin_peak_memory(runtime);
  const auto before = peak_memory(runtime);
  if (!before) GTEST_SKIP() << "this build does not tell";
  torch::zeros({1 << 20}, runtime.options());
  EXPECT_GE(*peak_memory(runtime), *before + (4 << 20));
}

TEST(CoreDevice, CpuByName) {
  const auto runtime = make_runtime("cpu", Precision::kFloat32);
  EXPECT_EQ(runtime.device, kCpu);
  EXPECT_EQ(runtime.device_name(), "cpu");
  EXPECT_EQ(runtime.precision, Precision::kFloat32);
}

// Never MPS, which cannot train.
TEST(CoreDevice, AutoIsTheFirstCudaDeviceOrTheCpu) {
  for (const auto precision : {Precision::kFloat32, Precision::kFloat64}) {
    EXPECT_EQ(make_runtime("auto", precision).device_name(),
              torch::cuda::is_available() ? "cuda:0" : "cpu");
  }
}

TEST(CoreDevice, UnknownNameIsAUsageError) {
  for (const std::string name : {"", "gpu", "CPU", "cuda:", "cuda:x", "cuda:-1",
                                 "cuda:0x", "cpu:", "cuda 0", "0"}) {
    const auto message =
        thrown<UsageError>([&] { make_runtime(name, Precision::kFloat32); });
    EXPECT_EQ(
        message,
        "[device] expected auto, cpu, cuda, cuda:N or mps, got '" + name + "'");
  }
}

TEST(CoreDevice, MemoryIsThatOfTheDevice) {
  const auto gib = [](const Runtime& runtime) {
    return static_cast<double>(memory_bytes(runtime)) / (1 << 30);
  };
  // /proc/meminfo counts what the kernel left over of the machine's pages.
  std::ifstream file("/proc/meminfo");
  std::string name;
  double kilobytes = 0;
  file >> name >> kilobytes;
  ASSERT_EQ(name, "MemTotal:");
  EXPECT_NEAR(gib(Runtime{}), kilobytes / (1 << 20), 0.01);
  if (torch::cuda::is_available()) {
    const auto cuda = make_runtime("cuda", Precision::kFloat32);
    EXPECT_GT(gib(cuda), 1);
    EXPECT_LT(gib(cuda), 1000);
  }
}

TEST(CoreDevice, OurLoopsRunOnSeveralThreads) {
  // Built without OpenMP, libtorch's parallel_for would run on one.
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  std::atomic<int> pieces = 0;
  at::parallel_for(0, 2, 1, [&](int64_t, int64_t) { ++pieces; });
  at::set_num_threads(before);
  EXPECT_EQ(pieces, 2);
}

TEST(CoreDevice, AbsentDeviceIsADeviceError) {
  const auto make = [](const std::string& name) {
    return [name] { make_runtime(name, Precision::kFloat32); };
  };
  EXPECT_NE(thrown<DeviceError>(make("cuda:99")), "");
  if (!torch::cuda::is_available()) {
    EXPECT_EQ(thrown<DeviceError>(make("cuda")),
              "[device] no CUDA device is available");
    EXPECT_NE(thrown<DeviceError>(make("cuda:0")), "");
  }
  if (!at::hasMPS()) {
    EXPECT_EQ(thrown<DeviceError>(make("mps")),
              "[device] this build has no MPS device");
  }
}

TEST(CoreDevice, TypeFollowsPrecision) {
  const auto type = [](Precision precision) {
    return Runtime{kCpu, precision}.dtype();
  };
  EXPECT_EQ(type(Precision::kFloat64), torch::kFloat64);
  EXPECT_EQ(type(Precision::kFloat32), torch::kFloat32);
  EXPECT_EQ(type(Precision::kTF32), torch::kFloat32);
  EXPECT_EQ(type(Precision::kBFloat16), torch::kFloat32);
  const auto runtime = make_runtime("cpu", Precision::kFloat64);
  const auto third = torch::ones({1}, runtime.options()) / 3;
  EXPECT_EQ(third.item<double>(), 1.0 / 3);
  EXPECT_EQ(third.device(), kCpu);
}

TEST(CoreDevice, Tf32OnTheCpuIsRefused) {
  const auto make = [] { make_runtime("cpu", Precision::kTF32); };
  EXPECT_EQ(thrown<UsageError>(make),
            "[precision] tf32 needs a CUDA device, got cpu");
}

TEST(CoreDevice, AScopeSetsThreadsAndPutsThemBack) {
  const int before = at::get_num_threads();
  const auto runtime = make_runtime("cpu", Precision::kFloat32);
  {
    const RuntimeScope three(runtime, 3);
    EXPECT_EQ(at::get_num_threads(), 3);
    {
      const RuntimeScope all(runtime, 0);
      EXPECT_EQ(at::get_num_threads(), all_cores());
    }
    EXPECT_EQ(at::get_num_threads(), 3);
    const RuntimeScope kept(runtime);
    EXPECT_EQ(at::get_num_threads(), 3);
  }
  EXPECT_EQ(at::get_num_threads(), before);
}

// Counted by the system, not by libtorch, whose own default leaves out the
// second thread of each core.
TEST(CoreDevice, AllCoresAreThoseThatTheProcessMayUse) {
  const char* asked = std::getenv("OMP_NUM_THREADS");
  if (asked != nullptr) GTEST_SKIP() << "OMP_NUM_THREADS=" << asked;
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  EXPECT_EQ(all_cores(), CPU_COUNT(&allowed));
}

TEST(CoreDevice, PrecisionNames) {
  EXPECT_EQ(config::name_of(Precision::kFloat64), "fp64");
  EXPECT_EQ(config::name_of(Precision::kFloat32), "fp32");
  EXPECT_EQ(config::name_of(Precision::kTF32), "tf32");
  EXPECT_EQ(config::name_of(Precision::kBFloat16), "bf16");
}

TEST(CoreDevice, BlasIsNamed) {
  const auto blas = blas_info();
  EXPECT_FALSE(blas.name.empty());
  if (blas.name.starts_with('/')) {
    EXPECT_TRUE(std::filesystem::exists(blas.name)) << blas.name;
  }
  if (blas.name.find("openblas") != std::string::npos) {
    EXPECT_FALSE(blas.reference);
  }
}

TEST(CoreDevice, Bf16ScopeTurnsProductsCoarse) {
  ASSERT_TRUE(is_fine(product()));
  {
    const PrecisionScope scope({kCpu, Precision::kBFloat16});
    EXPECT_TRUE(is_coarse(product()));
    {
      const PrecisionScope inner({kCpu, Precision::kBFloat16});
      EXPECT_TRUE(is_coarse(product()));
    }
    EXPECT_TRUE(is_coarse(product())) << "the inner scope ended the outer one";
  }
  EXPECT_TRUE(is_fine(product()));
}

TEST(CoreDevice, Bf16ScopeEndsWithAnException) {
  EXPECT_THROW(
      {
        const PrecisionScope scope({kCpu, Precision::kBFloat16});
        throw NumericalError("in between");
      },
      NumericalError);
  EXPECT_TRUE(is_fine(product()));
}

TEST(CoreDevice, OtherScopesChangeNothing) {
  for (const auto precision : {Precision::kFloat32, Precision::kFloat64}) {
    const PrecisionScope scope({kCpu, precision});
    EXPECT_TRUE(is_fine(product()));
  }
}

TEST(CoreDevice, AMachineHasTheNameThatLscpuKnows) {
  const testing::TemporaryFolder folder;
  const auto lscpu = folder / "lscpu";
  const auto name_with = [&](const std::string& lines) {
    std::ofstream(lscpu) << "#!/bin/sh\nprintf '" << lines << "'\n";
    std::filesystem::permissions(lscpu, std::filesystem::perms::owner_all);
    const testing::OnlyPath path(folder.path().string() + ":/usr/bin:/bin");
    return machine_name(kCpu);
  };
  EXPECT_EQ(name_with("CPU(s): 2\\nModel name:   Abacus 9\\nModel: 1\\n"),
            "Abacus 9");
  const testing::OnlyPath nothing;
  const auto system = machine_name(kCpu);
  EXPECT_NE(system.find(' '), std::string::npos);
  EXPECT_EQ(name_with("Model name:  -\\n"), system);
  EXPECT_EQ(name_with("CPU(s): 2\\n"), system);
}

}  // namespace
}  // namespace propagator
