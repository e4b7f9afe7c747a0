#include "testing.h"

#include <torch/cuda.h>

#include <fmt/ranges.h>
#include <torch/autograd.h>
#include <torch/utils.h>
#include <unistd.h>

#include <cstdlib>

#include "propagator/core/device.h"
#include "propagator/core/random.h"

namespace propagator::testing {
namespace {

// Tests compute as runs do: with the library that suits this CPU.
class Environment : public ::testing::Environment {
  void SetUp() override { scope_ = std::make_unique<RuntimeScope>(Runtime{}); }
  void TearDown() override { scope_.reset(); }

  std::unique_ptr<RuntimeScope> scope_;
};
[[maybe_unused]] auto* const environment =
    ::testing::AddGlobalTestEnvironment(new Environment);

}  // namespace

::testing::AssertionResult near(const torch::Tensor& a, const torch::Tensor& b,
                                Tolerance tolerance) {
  if (a.sizes() != b.sizes()) {
    return ::testing::AssertionFailure() << fmt::format(
               "shapes ({}) and ({})", fmt::join(a.sizes().vec(), ", "),
               fmt::join(b.sizes().vec(), ", "));
  }
  const auto x = a.detach().to(torch::kCPU, torch::kFloat64).flatten();
  const auto y = b.detach().to(torch::kCPU, torch::kFloat64).flatten();
  // Over one is too far; NaN compares false and so counts as too far.
  const auto excess =
      (x - y).abs() / (tolerance.absolute + tolerance.relative * y.abs());
  const auto good = excess <= 1;
  if (good.all().item<bool>()) return ::testing::AssertionSuccess();
  const auto worst =
      torch::where(good, excess, excess.nan_to_num(1e300) + 1).argmax();
  const auto at = worst.item<int64_t>();
  return ::testing::AssertionFailure()
         << fmt::format("element {} of {} differs most: {:.9g} and {:.9g}", at,
                        x.numel(), x[at].item<double>(), y[at].item<double>());
}

::testing::AssertionResult gradient_is_right(
    const std::function<torch::Tensor(const torch::Tensor&)>& f,
    const torch::Tensor& x, Tolerance tolerance) {
  auto variable = x.detach().clone().set_requires_grad(true);
  const auto gradient = torch::autograd::grad({f(variable)}, {variable})[0];
  const torch::NoGradGuard no_grad;
  auto moved = x.detach().clone();
  auto flat = moved.view(-1);
  auto difference = torch::empty_like(flat);
  constexpr double kStep = 1e-6;
  for (int64_t i = 0; i < flat.numel(); ++i) {
    const double at = flat[i].item<double>();
    flat[i] = at + kStep;
    const double above = f(moved).item<double>();
    flat[i] = at - kStep;
    const double below = f(moved).item<double>();
    flat[i] = at;
    difference[i] = (above - below) / (2 * kStep);
  }
  return near(gradient.flatten(), difference, tolerance);
}

double mean_of(const torch::Tensor& x) {
  return x.to(torch::kFloat64).mean().item<double>();
}

torch::Tensor random(torch::IntArrayRef shape, const std::string& name) {
  return RandomStream(7, "test/" + name).uniform(shape, -1, 1, torch::kFloat64);
}

std::vector<torch::Device> devices() {
  std::vector<torch::Device> found{torch::kCPU};
  if (torch::cuda::is_available()) found.push_back(torch::kCUDA);
  return found;
}

void expect_near_everywhere(const std::function<std::vector<torch::Tensor>(
                                torch::Device, torch::ScalarType)>& compute,
                            const std::vector<torch::Tensor>& plain,
                            Tolerance in_float32) {
  for (const auto& device : devices()) {
    for (const auto type : {torch::kFloat64, torch::kFloat32}) {
      const auto ours = compute(device, type);
      ASSERT_EQ(ours.size(), plain.size());
      for (size_t i = 0; i < ours.size(); ++i) {
        EXPECT_TRUE(near(ours[i], plain[i],
                         type == torch::kFloat64 ? kFloat64 : in_float32))
            << i << " on " << device << " in " << type;
      }
    }
  }
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern =
      (std::filesystem::temp_directory_path() / "propagator-XXXXXX").string();
  path_ = mkdtemp(pattern.data());
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

OnlyPath::OnlyPath(const std::string& folders) : before_(std::getenv("PATH")) {
  setenv("PATH", folders.c_str(), 1);
}

OnlyPath::~OnlyPath() { setenv("PATH", before_.c_str(), 1); }

std::string from_base64(const std::string& text) {
  const std::string digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0, count = 0;
  for (const char c : text) {
    const size_t digit = digits.find(c);
    if (digit == std::string::npos) continue;  // padding, newlines
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count & 0xff);
    }
  }
  return bytes;
}

}  // namespace propagator::testing
