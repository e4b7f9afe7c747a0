#include "propagator/kernels/affine_flow.h"

#include <fmt/format.h>
#include <torch/autograd.h>
#include <torch/utils.h>

#include <cmath>

#include "propagator/kernels/masked_mlp.h"
#include "testing.h"

namespace propagator::kernels {
namespace {

using testing::near;
using testing::random;
using torch::Tensor;
using Tensors = std::vector<Tensor>;

constexpr double kMostLogScale = 5;

struct Flow {
  Tensor x, given, du, dlog_slope;
  std::vector<FlowMapWeights> maps;

  Flow to(torch::Device device, torch::ScalarType type) const {
    const auto move = [&](const Tensor& one) { return one.to(device, type); };
    Flow other{move(x), move(given), move(du), move(dlog_slope), maps};
    for (auto& map : other.maps) {
      map.shift = move(map.shift);
      map.log_scale = move(map.log_scale);
      for (auto& one : map.layers) one = move(one);
    }
    return other;
  }
};

Flow flow_of(int64_t rows, int64_t variables, int64_t given, int64_t width,
             int64_t hidden, int64_t maps) {
  Flow flow{random({rows, variables}, "x"),
            random({rows, given}, "given"),
            random({rows, variables}, "du"),
            random({rows}, "dl"),
            {}};
  for (int64_t m = 0; m < maps; ++m) {
    const auto name = [&](const char* what, int64_t n) {
      return fmt::format("{}{}", what, 100 * m + n);
    };
    FlowMapWeights map{0.3 * random({variables}, name("shift", 0)),
                       0.3 * random({variables}, name("scale", 0)),
                       {}};
    for (int64_t n = 0; n <= hidden; ++n) {
      const int64_t from = n == 0 ? variables + given : width;
      const int64_t to = n < hidden ? width : 2 * variables;
      map.layers.push_back(random({to, from}, name("w", n)) /
                           std::sqrt(static_cast<double>(from)));
      map.layers.push_back(random({to}, name("b", n)));
      map.layers.push_back(
          (random({to, from}, name("m", n)) > -0.3).to(torch::kFloat64));
    }
    flow.maps.push_back(map);
  }
  return flow;
}

// u, log_slope, and the gradients by x, given, and what each map learns.
Tensors results(FlowValues (*map)(const Tensor&, const Tensor&,
                                  const std::vector<FlowMapWeights>&, double),
                const Flow& flow) {
  Tensors inputs;
  const auto leaf = [&](const Tensor& x) {
    inputs.push_back(x.detach().requires_grad_());
    return inputs.back();
  };
  const auto x = leaf(flow.x), given = leaf(flow.given);
  auto maps = flow.maps;
  for (auto& one : maps) {
    one.shift = leaf(one.shift);
    one.log_scale = leaf(one.log_scale);
    for (size_t n = 0; n < one.layers.size(); ++n) {
      if (n % 3 < 2) one.layers[n] = leaf(one.layers[n]);
    }
  }
  const auto [u, log_slope] = map(x, given, maps, kMostLogScale);
  auto all = torch::autograd::grad({u, log_slope}, inputs,
                                   {flow.du, flow.dlog_slope}, {}, false,
                                   /*allow_unused=*/true);
  // Nothing that is given has a gradient where it has no columns.
  if (flow.given.size(1) == 0) all.erase(all.begin() + 1);
  all.insert(all.end(), {u, log_slope});
  return all;
}

// The formula, with the layers of a network written out.
FlowValues by_formula(const Tensor& x, const Tensor& given,
                      const std::vector<FlowMapWeights>& maps, double most) {
  auto v = x, log_slope = torch::zeros_like(x);
  for (const auto& map : maps) {
    const auto t = (v - map.shift) * map.log_scale.exp();
    const auto y = masked_mlp_reference(torch::cat({t, given}, 1), map.layers);
    const auto raw = y.slice(1, 1, y.size(1), 2);
    const auto s = -most * torch::tanh(raw / most);
    v = (t - y.slice(1, 0, y.size(1), 2)) * s.exp();
    log_slope = log_slope + s + map.log_scale;
  }
  return {v, log_slope.sum(1)};
}

// Batches that fill no tile, few rows and so many that blocks take several
// tiles, networks of odd widths and the size of the published ones.
std::vector<Flow> flows() {
  return {flow_of(1, 1, 0, 1, 1, 1), flow_of(9, 2, 0, 64, 2, 5),
          flow_of(70, 3, 2, 17, 3, 2), flow_of(1061, 2, 1, 8, 1, 2),
          flow_of(5003, 2, 0, 9, 2, 2)};
}

TEST(KernelsAffineFlow, IsTheFormulaWithItsGradients) {
  for (const auto& flow : flows()) {
    const auto plain = results(by_formula, flow);
    for (const auto& device : testing::devices()) {
      for (const auto type : {torch::kFloat64, torch::kFloat32}) {
        const auto here = flow.to(device, type);
        EXPECT_EQ(has_affine_flow(here.x, here.given, here.maps),
                  device.is_cuda() && type == torch::kFloat32);
        const auto found = results(affine_flow, here);
        ASSERT_EQ(found.size(), plain.size());
        for (size_t n = 0; n < plain.size(); ++n) {
          const double size = plain[n].abs().max().item<double>();
          const double part = type == torch::kFloat64 ? 1e-11 : 2e-5;
          EXPECT_TRUE(near(found[n].cpu().to(torch::kFloat64), plain[n],
                           {part, part * (1 + size)}))
              << n << " of " << flow.x.size(0) << " rows on " << device;
        }
      }
    }
  }
}

TEST(KernelsAffineFlow, WithoutANetworkIsShiftAndScale) {
  auto flow = flow_of(6, 2, 0, 4, 1, 3);
  for (auto& map : flow.maps) {
    for (auto& one : map.layers) one = torch::zeros_like(one);
  }
  const auto [u, log_slope] =
      affine_flow(flow.x, flow.given, flow.maps, kMostLogScale);
  auto v = flow.x;
  auto sum = torch::zeros({}, torch::kFloat64);
  for (const auto& map : flow.maps) {
    v = (v - map.shift) * map.log_scale.exp();
    sum = sum + map.log_scale.sum();
  }
  EXPECT_TRUE(near(u, v, testing::kFloat64));
  EXPECT_TRUE(near(log_slope, sum.expand({6}), testing::kFloat64));
}

TEST(KernelsAffineFlow, RepeatsItsBits) {
  for (const auto& device : testing::devices()) {
    for (const int64_t rows : {500, 3000}) {
      const auto flow =
          flow_of(rows, 2, 1, 64, 2, 3).to(device, torch::kFloat32);
      const auto once = results(affine_flow, flow),
                 again = results(affine_flow, flow);
      for (size_t n = 0; n < once.size(); ++n) {
        EXPECT_TRUE(torch::equal(once[n], again[n])) << n << " on " << device;
      }
    }
  }
}

TEST(KernelsAffineFlow, WithoutGradientsIsTheSame) {
  for (const auto& device : testing::devices()) {
    const auto flow = flow_of(37, 3, 2, 16, 2, 2).to(device, torch::kFloat32);
    const auto with = results(affine_flow, flow);
    const torch::NoGradGuard no_grad;
    const auto [u, log_slope] =
        affine_flow(flow.x, flow.given, flow.maps, kMostLogScale);
    EXPECT_TRUE(torch::equal(u, with[with.size() - 2]));
    EXPECT_TRUE(torch::equal(log_slope, with.back()));
  }
}

}  // namespace
}  // namespace propagator::kernels
