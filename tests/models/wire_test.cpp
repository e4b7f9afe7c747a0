#include "propagator/models/wire.h"

#include <torch/utils.h>

#include "jet_checks.h"
#include "propagator/core/error.h"
#include "propagator/nn/init.h"

namespace propagator::models {
namespace {

using autodiff::Jet;
using autodiff::JetLayout;
using testing::near;
using testing::random;
using torch::Tensor;

const FieldDomain kWireDomain{{-1, 0}, {3, 0.5}, 2, 1};

WireOptions small_wire() {
  WireOptions options;
  options.width = 4;
  options.layers = 3;
  options.first_w0 = 2;
  options.hidden_w0 = 1.5;
  options.scale = 0.8;
  return options;
}

std::shared_ptr<FieldNet> made_wire(const WireOptions& options) {
  auto net = options.make(kWireDomain);
  net->initialise(5);
  net->to(torch::kFloat64);
  return net;
}

testing::MovingPoints wire_moving() {
  return {random({3, 2, 2}, "points") / 2 + 0.5, random({2, 2}, "directions")};
}

TEST(ModelsWire, ParameterCountIsThatOfTheFormula) {
  for (const int64_t width : {1, 16, 33}) {
    for (const int64_t layers : {1, 2, 5}) {
      auto options = small_wire();
      options.width = width;
      options.layers = layers;
      for (const int64_t fields : {1, 3}) {
        const auto net = options.make({{0, 0, 0}, {1, 1, 1}, fields, 2});
        EXPECT_EQ(nn::parameter_count(*net),
                  4 * width + 2 * (layers - 1) * (width + 1) * width +
                      (2 * width + 1) * fields);
      }
    }
  }
  EXPECT_FALSE(small_wire().windowed());
  EXPECT_FALSE(small_wire().needs_readings());
  // The PGT paper's 0.528 M for three variables and three fields.
  auto options = small_wire();
  options.width = 256;
  options.layers = 5;
  const auto wake = options.make({{0, 0, 0}, {1, 1, 1}, 3, 2});
  EXPECT_EQ(nn::parameter_count(*wake), 528899);
}

TEST(ModelsWire, IsItsFormulaInComplexNumbers) {
  const auto net = made_wire(small_wire());
  const auto p = net->named_parameters();
  const auto points = wire_moving().points;
  const auto low = torch::tensor(kWireDomain.low, torch::kFloat64);
  const auto high = torch::tensor(kWireDomain.high, torch::kFloat64);
  const torch::NoGradGuard no_grad;
  const auto wavelet = [](const Tensor& z, double w0) {
    const auto i = torch::complex(torch::zeros_like(torch::real(z)),
                                  torch::ones_like(torch::real(z)));
    return torch::exp(i * z * w0 - (z * 0.8).abs().square());
  };
  const auto x = (points - low) / (high - low) * 2 - 1;
  const auto first =
      torch::linear(x, p["layer0.real.weight"], p["layer0.real.bias"]);
  auto h = wavelet(torch::complex(first, torch::zeros_like(first)), 2);
  for (const std::string layer : {"layer1.", "layer2."}) {
    const auto weight =
        torch::complex(p[layer + "real.weight"], p[layer + "imaginary.weight"]);
    const auto bias =
        torch::complex(p[layer + "real.bias"], p[layer + "imaginary.bias"]);
    h = wavelet(torch::matmul(h, weight.t()) + bias, 1.5);
  }
  const auto out =
      torch::complex(p["out_real.weight"], p["out_imaginary.weight"]);
  const auto expected =
      torch::real(torch::matmul(h, out.t())) + p["out_real.bias"];
  EXPECT_TRUE(near(net->values(points), expected, {1e-11, 1e-12}));
}

TEST(ModelsWire, DerivativesToOrderThree) {
  const auto net = made_wire(small_wire());
  const auto f = testing::jet_map(*net);
  EXPECT_TRUE(
      testing::derivatives_are_nested(f, wire_moving(), 3, {1e-9, 1e-9}));
  EXPECT_TRUE(
      testing::derivatives_are_differences(f, wire_moving(), 3, {1e-5, 1e-5}));
  for (int64_t order = 1; order <= 3; ++order) {
    EXPECT_TRUE(testing::parameter_gradients_are_nested(*net, f, wire_moving(),
                                                        order, {1e-8, 1e-7}))
        << order;
  }
}

TEST(ModelsWire, OneRowCarriesASumOverDirections) {
  const auto net = made_wire(small_wire());
  const auto at = wire_moving();
  const auto rows = [&](const JetLayout& layout) {
    return net->forward(Jet::moving(at.points, at.directions, layout)).rows();
  };
  const auto each = rows(JetLayout({2, 2}));
  EXPECT_TRUE(near(rows(JetLayout::summed({2, 2}, {1, -1}))[3],
                   each[3] - each[4], {1e-10, 1e-11}));
}

TEST(ModelsWire, AnswersAreTheSameOnEveryDevice) {
  const auto at = wire_moving();
  const auto run = [&](torch::Device device, torch::ScalarType type) {
    const auto net = made_wire(small_wire());
    net->to(device, type);
    const auto rows = net->forward(Jet::moving(at.points.to(device, type),
                                               at.directions.to(device, type),
                                               JetLayout({2, 2})))
                          .rows();
    rows.square().sum().backward();
    return std::vector<Tensor>{
        rows.detach().cpu().to(torch::kFloat64),
        net->parameters().front().grad().cpu().to(torch::kFloat64)};
  };
  const auto plain = run(torch::kCPU, torch::kFloat64);
  for (const auto& device : testing::devices()) {
    const auto ours = run(device, torch::kFloat32);
    for (size_t i = 0; i < plain.size(); ++i) {
      const double size = plain[i].abs().max().item<double>();
      EXPECT_TRUE(near(ours[i] / size, plain[i] / size, {1e-4, 1e-5}))
          << i << " on " << device;
    }
  }
}

TEST(ModelsWire, BeginsAsTheMethodHasIt) {
  WireOptions options;
  EXPECT_EQ(options.first_w0, 30);
  EXPECT_EQ(options.hidden_w0, 30);
  EXPECT_EQ(options.scale, 10);
  options.width = 100;
  const auto net = options.make(kWireDomain);
  net->initialise(1);
  for (const auto& item : net->named_parameters()) {
    const bool first = item.key().starts_with("layer0");
    const double bound = 1 / std::sqrt(first ? 2.0 : 100.0);
    const double largest = item.value().abs().max().item<double>();
    EXPECT_LE(largest, bound) << item.key();
    EXPECT_GT(largest, bound / 4) << item.key();
  }
}

TEST(ModelsWire, WaveletsThatOverflowAreRefused) {
  auto options = small_wire();
  EXPECT_NO_THROW(options.validate(kWireDomain));
  EXPECT_NO_THROW(WireOptions().validate(kWireDomain));
  options.hidden_w0 = 30;
  EXPECT_THROW(options.validate(kWireDomain), ConfigError);
}

}  // namespace
}  // namespace propagator::models
