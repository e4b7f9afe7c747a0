#include "propagator/nn/set_encoder.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include <cmath>

#include "propagator/core/error.h"
#include "propagator/nn/init.h"
#include "testing.h"

namespace propagator::nn {
namespace {

using testing::gradient_is_right;
using testing::near;
using testing::random;
using testing::thrown;
using torch::Tensor;

// Sums in another order, through a few layers.
constexpr testing::Tolerance kSetSums{1e-10, 1e-11};

SetEncoderOptions small(NormPlace norm = NormPlace::kAfter,
                        Activation activation = Activation::kRelu) {
  return {.layers = 2,
          .width = 8,
          .heads = 2,
          .feed_forward = 10,
          .dropout = 0,
          .norm = norm,
          .activation = activation};
}

const SetEncoderOptions kKinds[] = {
    small(), small(NormPlace::kBefore, Activation::kGelu)};

SetEncoder make(const SetEncoderOptions& options) {
  SetEncoder encoder(options);
  initialise(*encoder, 3);
  seed_dropouts(*encoder, 3);
  encoder->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  for (auto& item : encoder->named_parameters()) {
    // Norms that do something.
    if (item.value().dim() == 1 && item.value().requires_grad()) {
      item.value().add_(random(item.value().sizes(), item.key()) / 2);
    }
  }
  return encoder;
}

// Six tokens of which some of the last are padding.
TokenSet tokens() {
  const auto padding =
      torch::tensor(
          {{0, 0, 0, 0, 0, 0}, {0, 0, 1, 0, 1, 1}, {0, 1, 1, 1, 1, 1}}) == 1;
  return {random({3, 6, 8}, "tokens"), padding};
}

// One set through the encoder, number by number.
class Plain {
 public:
  Plain(const SetEncoderOptions& options, const SetEncoder& encoder)
      : o_(options), parameters_(encoder->named_parameters()) {}

  Tensor run(Tensor x, const Tensor& padding) {  // (T, C), (T)
    for (int64_t n = 0; n < o_.layers; ++n) {
      const auto name = "layer" + std::to_string(n) + ".";
      if (o_.norm == NormPlace::kAfter) {
        x = norm(name + "norm1", x + attention(name, x, padding));
        x = norm(name + "norm2", x + feed_forward(name, x));
      } else {
        x = x + attention(name, norm(name + "norm1", x), padding);
        x = x + feed_forward(name, norm(name + "norm2", x));
      }
    }
    return o_.norm == NormPlace::kBefore ? norm("norm", x) : x;
  }

 private:
  Tensor linear(const std::string& name, const Tensor& x) {
    return torch::einsum("tc,oc->to", {x, parameters_[name + ".weight"]}) +
           parameters_[name + ".bias"];
  }

  Tensor norm(const std::string& name, const Tensor& x) {
    const auto gap = x - x.mean(1, /*keepdim=*/true);
    const auto variance = gap.square().mean(1, /*keepdim=*/true);
    return gap / torch::sqrt(variance + 1e-5) * parameters_[name + ".weight"] +
           parameters_[name + ".bias"];
  }

  Tensor feed_forward(const std::string& name, const Tensor& x) {
    const auto h = linear(name + "linear1", x);
    const auto hidden = o_.activation == Activation::kRelu
                            ? torch::where(h > 0, h, torch::zeros_like(h))
                            : 0.5 * h * (1 + torch::erf(h / std::sqrt(2.0)));
    return linear(name + "linear2", hidden);
  }

  Tensor attention(const std::string& name, const Tensor& x,
                   const Tensor& padding) {
    const auto all = linear(name + "qkv", x);
    const int64_t c = o_.width, d = c / o_.heads, count = x.size(0);
    auto merged = torch::zeros({count, c}, torch::kFloat64);
    const auto at = [&](int64_t token, int64_t column) {
      return all[token][column].item<double>();
    };
    for (int64_t h = 0; h < o_.heads; ++h) {
      for (int64_t i = 0; i < count; ++i) {
        std::vector<double> weight(static_cast<size_t>(count), 0);
        double sum = 0;
        for (int64_t j = 0; j < count; ++j) {
          if (padding[j].item<bool>()) continue;
          double score = 0;
          for (int64_t e = h * d; e < (h + 1) * d; ++e) {
            score += at(i, e) * at(j, c + e);
          }
          weight[j] = std::exp(score / std::sqrt(static_cast<double>(d)));
          sum += weight[j];
        }
        for (int64_t e = h * d; e < (h + 1) * d; ++e) {
          double value = 0;
          for (int64_t j = 0; j < count; ++j) {
            value += weight[j] / sum * at(j, 2 * c + e);
          }
          merged[i][e] = value;
        }
      }
    }
    return linear(name + "output", merged);
  }

  SetEncoderOptions o_;
  torch::OrderedDict<std::string, Tensor> parameters_;
};

TEST(NnSetEncoder, LayerHasTheParametersOfTheDocuments) {
  SetEncoderOptions o;
  o.layers = 1;
  SetEncoder encoder(o);
  EXPECT_EQ(parameter_count(*encoder), 8544);
  o.layers = 3;
  o.width = 12;
  o.feed_forward = 7;
  SetEncoder other(o);
  EXPECT_EQ(parameter_count(*other),
            3 * (4 * 12 * 12 + 2 * 12 * 7 + 9 * 12 + 7));
}

TEST(NnSetEncoder, ValuesAreThoseOfAPlainComputation) {
  for (const auto& options : kKinds) {
    auto encoder = make(options);
    const torch::NoGradGuard no_grad;
    const auto x = tokens();
    const auto out = encoder->forward(x);
    Plain plain(options, encoder);
    for (int64_t b = 0; b < 3; ++b) {
      EXPECT_TRUE(near(out[b], plain.run(x.tokens[b], x.padding[b]), kSetSums));
    }
  }
}

TEST(NnSetEncoder, GradientIsThatOfDifferences) {
  for (const auto& options : kKinds) {
    auto encoder = make(options);
    const auto cotangent = random({3, 2, 8}, "cotangent");
    const auto x = tokens();
    const auto value = [&](const Tensor& t) {
      return (encoder->forward({t, x.padding}, 2) * cotangent).sum();
    };
    EXPECT_TRUE(gradient_is_right(value, x.tokens));
    // Of the weights along a direction.
    encoder->zero_grad();
    value(x.tokens).backward();
    const torch::NoGradGuard no_grad;
    for (auto& item : encoder->named_parameters()) {
      auto& p = item.value();
      const auto direction = random(p.sizes(), "direction");
      const double slope = (p.grad() * direction).sum().item<double>();
      constexpr double kStep = 1e-6;
      p.add_(direction, kStep);
      const double above = value(x.tokens).item<double>();
      p.sub_(direction, 2 * kStep);
      const double below = value(x.tokens).item<double>();
      p.add_(direction, kStep);
      EXPECT_NEAR((above - below) / (2 * kStep), slope,
                  1e-7 + 1e-6 * std::abs(slope))
          << item.key();
    }
  }
}

TEST(NnSetEncoder, PaddingHasNoInfluence) {
  for (auto options : kKinds) {
    options.dropout = 0.3;
    auto encoder = make(options), same = make(options);
    const auto x = tokens();
    const auto moved = torch::where(x.padding.unsqueeze(2),
                                    random({3, 6, 8}, "moved") * 30, x.tokens);
    const auto seen = x.padding.logical_not().unsqueeze(2);
    EXPECT_TRUE(torch::equal(encoder->forward(x) * seen,
                             same->forward({moved, x.padding}) * seen));
    // Nor are more of them: not in evaluation, where nothing is drawn.
    encoder->eval();
    const auto wider =
        TokenSet{torch::cat({x.tokens, random({3, 4, 8}, "more")}, 1),
                 torch::cat({x.padding, torch::ones({3, 4}, torch::kBool)}, 1)};
    EXPECT_TRUE(near(encoder->forward(wider).narrow(1, 0, 6) * seen,
                     encoder->forward(x) * seen, kSetSums));
  }
}

TEST(NnSetEncoder, OrderOfTokensGoesThrough) {
  for (const auto& options : kKinds) {
    auto encoder = make(options);
    const auto x = tokens();
    const auto order = torch::tensor({3, 0, 5, 1, 4, 2});
    EXPECT_TRUE(near(encoder->forward({x.tokens.index_select(1, order),
                                       x.padding.index_select(1, order)}),
                     encoder->forward(x).index_select(1, order), kSetSums));
  }
}

TEST(NnSetEncoder, FirstTokensAloneAreTheSame) {
  for (const auto& options : kKinds) {
    auto encoder = make(options);
    EXPECT_TRUE(near(encoder->forward(tokens(), 2),
                     encoder->forward(tokens()).narrow(1, 0, 2), kSetSums));
  }
}

TEST(NnSetEncoder, RealTokensAloneAreTheSameAndPaddingIsZero) {
  // Of width 32 the layers are fused where there are gradients.
  for (auto options : kKinds) {
    options.width = options.feed_forward = 32;
    options.dropout = 0.3;
    auto fused = make(options), plain = make(options), all = make(options);
    const TokenSet x{
        random({3, 6, 32}, "wide"),
        // The first token of the last set is padding too.
        torch::tensor(
            {{0, 0, 1, 0, 1, 1}, {0, 0, 0, 0, 0, 0}, {1, 0, 1, 0, 0, 1}}) == 1};
    const auto cotangent = random({3, 6, 32}, "cotangent");
    const auto by_fused = fused->forward(x, SetEncoderImpl::kReal);
    (by_fused * cotangent).sum().backward();
    const auto real = x.padding.logical_not().unsqueeze(2);
    const auto reference = all->forward(x) * real;
    (reference * cotangent).sum().backward();
    EXPECT_TRUE(near(by_fused.detach(), reference.detach(), kSetSums));
    const auto expected = all->named_parameters();
    for (const auto& item : fused->named_parameters()) {
      if (!item.value().requires_grad()) continue;
      EXPECT_TRUE(
          near(item.value().grad(), expected[item.key()].grad(), {1e-8, 1e-9}))
          << item.key();
    }
    const torch::NoGradGuard no_grad;
    const auto by_plain = plain->forward(x, SetEncoderImpl::kReal);
    EXPECT_TRUE(near(by_fused.detach(), by_plain, kSetSums));
    EXPECT_EQ((by_plain * x.padding.unsqueeze(2)).abs().max().item<double>(),
              0);
  }
}

TEST(NnSetEncoder, ObserverSeesTheFirstTokensWeights) {
  auto encoder = make(small());
  std::vector<Tensor> seen;
  const auto x = tokens();
  const auto watched =
      encoder->forward(x, 1, [&](int64_t layer, const Tensor& weights) {
        EXPECT_EQ(layer, static_cast<int64_t>(seen.size()));
        seen.push_back(weights);
      });
  EXPECT_TRUE(torch::equal(watched, encoder->forward(x, 1)));
  ASSERT_EQ(seen.size(), 2u);
  for (const auto& w : seen) {
    EXPECT_TRUE(near(w.sum(2), torch::ones({3, 2}), testing::kFloat64));
    EXPECT_TRUE(
        (w.masked_select(x.padding.unsqueeze(1)) == 0).all().item<bool>());
  }
}

TEST(NnSetEncoder, DropoutIsInTrainingAlone) {
  auto options = small();
  options.dropout = 0.5;
  auto encoder = make(options), same = make(options), plain = make(small());
  const auto first = encoder->forward(tokens());
  EXPECT_FALSE(torch::equal(first, encoder->forward(tokens())));
  EXPECT_TRUE(torch::equal(first, same->forward(tokens())));
  encoder->eval();
  EXPECT_TRUE(
      torch::equal(encoder->forward(tokens()), plain->forward(tokens())));
}

TEST(NnSetEncoder, RefusesHeadsThatDoNotDivide) {
  auto options = small();
  options.heads = 3;
  EXPECT_NE(thrown<UsageError>([&] { SetEncoder e(options); }).find("got 3"),
            std::string::npos);
}

}  // namespace
}  // namespace propagator::nn
