#include <torch/autograd.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <cmath>

#include "propagator/core/error.h"
#include "propagator/nn/frame_embedding.h"
#include "propagator/nn/init.h"
#include "propagator/nn/positional_encoding.h"
#include "testing.h"

namespace propagator::nn {
namespace {

using propagator::testing::kFloat64;
using propagator::testing::near;
using propagator::testing::random;

TEST(NnEncoding, SinesAndCosinesOfGeometricFrequencies) {
  const auto e = sinusoidal_encoding(9, 8, torch::kFloat64);
  for (int64_t p = 0; p < 9; ++p) {
    for (int64_t k = 0; k < 4; ++k) {
      const double f = std::pow(1e-4, static_cast<double>(k) / 3);
      EXPECT_NEAR(e[p][k].item<double>(), std::sin(p * f) / 2, 1e-14);
      EXPECT_NEAR(e[p][k + 4].item<double>(), std::cos(p * f) / 2, 1e-14);
    }
  }
}

TEST(NnEncoding, RowsHaveLengthOne) {
  const auto e = sinusoidal_encoding(401, 512, torch::kFloat64);
  EXPECT_TRUE(
      near(e.square().sum(1), torch::ones({401}, torch::kFloat64), kFloat64));
}

TEST(NnEncoding, ProductDependsOnTheDifferenceOnly) {
  const auto e = sinusoidal_encoding(50, 16, torch::kFloat64);
  const auto gram = torch::matmul(e, e.t());
  EXPECT_TRUE(near(gram.diagonal(7).slice(0, 0, 40), gram[0][7].expand({40}),
                   kFloat64));
}

TEST(NnEncoding, OddWidthIsRefused) {
  EXPECT_THROW(sinusoidal_encoding(4, 7, torch::kFloat64), UsageError);
}

TEST(NnFrameEmbedding, PublishedProjectionHas88605184Parameters) {
  const FrameEmbedding published(
      FrameEmbeddingOptions{26, 26, 512, EmbeddingForm::kPublished});
  EXPECT_EQ(parameter_count(*published), 88'605'184);
  const FrameEmbedding collapsed(
      FrameEmbeddingOptions{26, 26, 512, EmbeddingForm::kCollapsed});
  EXPECT_EQ(parameter_count(*collapsed), 676 * 512 + 512);
}

TEST(NnFrameEmbedding, PublishedIsTheLiteralSum) {
  // Σ_{p,f} W[o, p, f] (pixel_p + y-encoding + x-encoding) + b, by loops.
  FrameEmbedding embedding(
      FrameEmbeddingOptions{3, 2, 8, EmbeddingForm::kPublished});
  initialise(*embedding, 5);
  const torch::NoGradGuard no_grad;
  const auto frame = random({1, 1, 3, 2}, "frame").to(torch::kFloat32);
  const auto out = embedding->forward(frame);
  const auto y = sinusoidal_encoding(3, 4, torch::kFloat64);
  const auto x = sinusoidal_encoding(2, 4, torch::kFloat64);
  const auto w = embedding->named_parameters()["projection.weight"];
  const auto b = embedding->named_parameters()["projection.bias"];
  for (int64_t o = 0; o < 8; ++o) {
    double sum = b[o].item<double>();
    for (int64_t j = 0; j < 3; ++j) {
      for (int64_t i = 0; i < 2; ++i) {
        for (int64_t f = 0; f < 4; ++f) {
          sum += w[o][(j * 2 + i) * 4 + f].item<double>() *
                 (frame[0][0][j][i].item<double>() + y[j][f].item<double>() +
                  x[i][f].item<double>());
        }
      }
    }
    EXPECT_NEAR(out[0][0][o].item<double>(), sum, 1e-5);
  }
}

TEST(NnFrameEmbedding, PublishedHasTheGradientsOfTheLiteralSum) {
  for (const auto& device : propagator::testing::devices()) {
    FrameEmbedding embedding(
        FrameEmbeddingOptions{3, 2, 8, EmbeddingForm::kPublished});
    initialise(*embedding, 5);
    embedding->to(device, torch::kFloat64);
    const auto frames = random({2, 3, 3, 2}, "frames").to(device);
    const auto cotangent = random({2, 3, 8}, "cotangent").to(device);
    auto p = embedding->named_parameters();
    const std::vector<torch::Tensor> weights{p["projection.weight"],
                                             p["projection.bias"]};
    const auto encoding = embedding->named_buffers()["encoding"];
    const auto literal =
        torch::linear((frames.flatten(2).unsqueeze(-1) + encoding).flatten(2),
                      weights[0], weights[1]);
    const auto out = embedding->forward(frames);
    EXPECT_TRUE(near(out, literal, kFloat64));
    const auto expected =
        torch::autograd::grad({literal}, weights, {cotangent});
    out.backward(cotangent);
    for (size_t n = 0; n < 2; ++n) {
      EXPECT_TRUE(near(weights[n].grad(), expected[n], kFloat64)) << device;
    }
  }
}

TEST(NnInit, EachParameterHasItsOwnStream) {
  torch::nn::Linear a(6, 4), b(6, 4);
  initialise(*a, 1);
  initialise(*b, 1);
  EXPECT_TRUE(torch::equal(a->weight, b->weight));
  initialise(*b, 2);
  EXPECT_FALSE(torch::equal(a->weight, b->weight));
  EXPECT_LE(a->weight.abs().max().item<double>(), 1 / std::sqrt(6.0));
  EXPECT_GT(a->weight.std().item<double>(), 0.1);
  EXPECT_LE(a->bias.abs().max().item<double>(), 1 / std::sqrt(6.0));
}

}  // namespace
}  // namespace propagator::nn
