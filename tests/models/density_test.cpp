#include "propagator/models/density.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "propagator/core/error.h"
#include "propagator/models/autoregressive_flow.h"
#include "propagator/models/density_former.h"
#include "propagator/models/flow_matching.h"
#include "propagator/models/gaussian.h"
#include "propagator/models/made.h"
#include "testing.h"

namespace propagator::models {
namespace {

using nn::Support;
using nn::Supports;
using testing::near;
using testing::random;
using torch::Tensor;

// The densities by name, small, with weights that bend them.
std::shared_ptr<Density> made(const std::string& name,
                              const DensityShape& shape) {
  std::unique_ptr<DensityOptions> options;
  if (name.starts_with("made")) {
    auto of = std::make_unique<MadeOptions>();
    of->components = name == "made" ? 1 : 3;
    of->width = 8;
    options = std::move(of);
  } else if (name == "density_former") {
    auto of = std::make_unique<DensityFormerOptions>();
    of->components = 2;
    of->width = 8;
    of->heads = 2;
    of->feed_forward = 8;
    options = std::move(of);
  } else if (name == "gaussian") {
    auto of = std::make_unique<GaussianOptions>();
    of->width = 8;
    options = std::move(of);
  } else if (name == "flow_matching") {
    auto of = std::make_unique<FlowMatchingOptions>();
    of->width = 8;
    of->layers = 2;
    options = std::move(of);
  } else {
    auto of = std::make_unique<AutoregressiveFlowOptions>();
    of->map = name == "maf" ? FlowMap::kAffine : FlowMap::kSpline;
    of->flows = 2;
    of->width = 8;
    of->spline = {.bins = 4, .reach = 3};
    options = std::move(of);
  }
  auto model = options->make(shape);
  model->to(torch::kFloat64);
  model->initialise(1);
  const torch::NoGradGuard no_grad;
  for (auto& item : model->named_parameters()) {
    if (!item.value().requires_grad()) continue;
    item.value().add_(0.3 * random(item.value().sizes(), item.key()));
  }
  return model;
}

class ModelsDensity : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, ModelsDensity,
                         ::testing::Values("made", "made-mixture",
                                           "density_former", "flow_matching",
                                           "gaussian", "maf", "spline_flow"));

Tensor given_rows(int64_t count, int64_t columns) {
  return columns == 0 ? torch::zeros({count, 0}, torch::kFloat64)
                      : torch::full({count, columns}, 0.4, torch::kFloat64);
}

// Cells of a square and their centres, (n², 2).
struct Cells {
  double reach;
  int64_t count;

  double edge() const { return 2 * reach / static_cast<double>(count); }
  Tensor centres() const {
    const auto along =
        (torch::arange(count, torch::kFloat64) + 0.5) * edge() - reach;
    const auto mesh = torch::meshgrid({along, along}, "ij");
    return torch::stack({mesh[0].flatten(), mesh[1].flatten()}, 1);
  }
};

TEST_P(ModelsDensity, IntegratesToOne) {
  const Cells cells{12, 400};
  for (const int64_t given : {0, 1}) {
    const auto model = made(GetParam(), {2, given});
    const torch::NoGradGuard no_grad;
    const auto centres = cells.centres();
    const auto p =
        model->log_prob(centres, given_rows(centres.size(0), given)).exp();
    EXPECT_NEAR(p.sum().item<double>() * cells.edge() * cells.edge(), 1, 2e-3);
  }
}

TEST_P(ModelsDensity, NoRowsHaveNoLikelihood) {
  for (const int64_t given : {0, 1}) {
    const auto model = made(GetParam(), {2, given});
    const auto x = torch::zeros({0, 2}, torch::kFloat64);
    EXPECT_EQ(model->log_prob(x, given_rows(0, given)).sizes(),
              torch::IntArrayRef({0}));
  }
}

// Shares of 40 000 samples in coarse cells against the integral of the
// density there: every share within five standard deviations.
TEST_P(ModelsDensity, SamplesFollowTheDensity) {
  const auto model = made(GetParam(), {2, 1});
  const torch::NoGradGuard no_grad;
  const int64_t count = 40000, coarse = 12, fine = 25;
  const Cells cells{6, coarse * fine};
  const auto p =
      model->log_prob(cells.centres(), given_rows(cells.count * cells.count, 1))
          .exp()
          .view({coarse, fine, coarse, fine})
          .sum({1, 3}) *
      cells.edge() * cells.edge();
  const auto x =
      model->sample(given_rows(count, 1), RandomStream(3, "samples"));
  const auto at = ((x + cells.reach) / (2 * cells.reach) * coarse).floor();
  const auto inside = ((at >= 0) & (at < coarse)).all(1).nonzero().squeeze(1);
  const auto index = at.index_select(0, inside).to(torch::kInt64);
  const auto shares =
      torch::bincount(index.select(1, 0) * coarse + index.select(1, 1), {},
                      coarse * coarse)
          .to(torch::kFloat64)
          .view({coarse, coarse}) /
      static_cast<double>(count);
  const auto deviation =
      torch::sqrt(p * (1 - p) / static_cast<double>(count)) + 2e-5;
  EXPECT_LT(((shares - p) / deviation).abs().max().item<double>(), 5);
  EXPECT_GT(shares.sum().item<double>(), 0.9);
}

TEST_P(ModelsDensity, TheSameStreamGivesTheSameSamples) {
  const auto model = made(GetParam(), {3, 0});
  const auto draw = [&](int64_t seed) {
    return model->sample(given_rows(7, 0), RandomStream(seed, "samples"));
  };
  EXPECT_TRUE(torch::equal(draw(1), draw(1)));
  EXPECT_FALSE(torch::equal(draw(1), draw(2)));
}

TEST_P(ModelsDensity, ScalesOfTheDataChangeOnlyTheUnits) {
  const auto model = made(GetParam(), {2, 0});
  const auto x = random({50, 2}, "data");
  const auto none = given_rows(50, 0);
  model->calibrate(x, none);
  const auto before = model->log_prob(x, none);
  const auto stretch = torch::tensor({10., 0.2}, torch::kFloat64);
  model->calibrate(x * stretch + 7, none);
  EXPECT_TRUE(near(model->log_prob(x * stretch + 7, none),
                   before - std::log(10 * 0.2), {1e-9, 1e-9}));
}

TEST_P(ModelsDensity, AFirstEstimateMovesItAlong) {
  const auto model =
      made(GetParam(), {.variables = 2, .given = 2, .centred = true});
  const auto x = random({9, 2}, "x"), centre = random({9, 2}, "centre");
  model->calibrate(x + centre, centre);
  const auto at = [&](double shift) {
    // The network is given the same, whatever the estimate.
    const torch::NoGradGuard no_grad;
    for (auto& item : model->named_parameters()) {
      if (item.key() == "given_shift")
        item.value().copy_(centre.mean(0) + shift);
    }
    return model->log_prob(x + centre + shift, centre + shift);
  };
  EXPECT_TRUE(near(at(0), at(100), {1e-9, 1e-9}));
}

TEST_P(ModelsDensity, WrongColumnsAreToldApart) {
  const auto model = made(GetParam(), {2, 1});
  EXPECT_EQ(testing::thrown<UsageError>([&] {
              model->log_prob(random({4, 3}, "x"), given_rows(4, 1));
            }),
            "[density] expected x (N, 2) and given (N, 1), got (4, 3) and "
            "(4, 1)");
}

TEST(ModelsMade, ItsOrderNamesEveryVariableOnce) {
  const DensityShape shape{.variables = 2, .names = {"x", "y"}};
  MadeOptions options;
  options.order = {"y", "x"};
  EXPECT_NO_THROW(options.validate(shape));
  const auto said = [&](std::vector<std::string> order) {
    options.order = std::move(order);
    return testing::thrown<ConfigError>([&] { options.validate(shape); });
  };
  EXPECT_NE(said({"y", "z"}).find("there is no variable z"), std::string::npos);
  EXPECT_NE(said({"y", "y"}).find("y stands there twice"), std::string::npos);
  EXPECT_NE(said({"y"}).find("expected all 2 variables, got 1"),
            std::string::npos);
}

// A variable between 0 and 2, and an angle of degrees; data that are spread
// over both.
class ModelsDensitySupport : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    model_ =
        made(GetParam(), {.variables = 2, .supports = Supports(supports_)});
    const auto u =
        RandomStream(1, "data").uniform({500, 2}, 0.05, 0.95, torch::kFloat64);
    model_->calibrate(u * torch::tensor({2., 360.}, torch::kFloat64),
                      given_rows(500, 0));
  }
  Tensor log_prob(const Tensor& x) {
    const torch::NoGradGuard no_grad;
    return model_->log_prob(x, given_rows(x.size(0), 0));
  }

  std::vector<Support> supports_{{Support::Kind::kBetween, 0, 2},
                                 {Support::Kind::kCircle, 0, 360}};
  std::shared_ptr<Density> model_;
};
INSTANTIATE_TEST_SUITE_P(Models, ModelsDensitySupport,
                         ::testing::Values("made-mixture", "maf",
                                           "flow_matching"));

TEST_P(ModelsDensitySupport, HoldsAllOfTheDensity) {
  const int64_t n = 300;
  const auto along = (torch::arange(n, torch::kFloat64) + 0.5) / n;
  const auto mesh = torch::meshgrid({2 * along, 360 * along}, "ij");
  const auto p =
      log_prob(torch::stack({mesh[0].flatten(), mesh[1].flatten()}, 1)).exp();
  EXPECT_NEAR(p.mean().item<double>() * 2 * 360, 1, 0.02);
}

TEST_P(ModelsDensitySupport, NothingIsBeyondAndAnAngleHasNoSeam) {
  const auto x = torch::tensor({{-0.1, 10.},
                                {0.5, 10.},
                                {0.5, 370.},
                                {0.5, 0.},
                                {0.5, 360 - 1e-9},
                                {2., 10.}},
                               torch::kFloat64);
  const auto p = log_prob(x);
  EXPECT_EQ(p[0].item<double>(), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(p[5].item<double>(), -std::numeric_limits<double>::infinity());
  EXPECT_DOUBLE_EQ(p[1].item<double>(), p[2].item<double>());
  EXPECT_NEAR(p[3].item<double>(), p[4].item<double>(), 0.02);
}

TEST_P(ModelsDensitySupport, SamplesAreWhereTheyCanBe) {
  const auto x = model_->sample(given_rows(2000, 0), RandomStream(1, "draw"));
  EXPECT_TRUE(Supports(supports_).hold(x).all().item<bool>());
  EXPECT_GE(x.select(1, 1).min().item<double>(), 0);
  EXPECT_LE(x.select(1, 1).max().item<double>(), 360);
}

TEST(ModelsSupport, MapsHaveTheSlopesTheySay) {
  const Supports supports({{Support::Kind::kAbove, 1, 0},
                           {Support::Kind::kBelow, 0, 3},
                           {Support::Kind::kBetween, -1, 2}});
  const auto x =
      torch::tensor({{1.5, 2.2, 0.3}, {4., -7., 1.9}}, torch::kFloat64)
          .requires_grad_();
  const auto [z, log_slope] = supports.to_line(x);
  const auto slopes = torch::autograd::grad({z.sum()}, {x}, {}, true)[0];
  EXPECT_TRUE(near(log_slope, slopes.abs().log().sum(1), {1e-12, 1e-12}));
  EXPECT_TRUE(near(supports.from_line(z), x, {1e-12, 1e-12}));
}

TEST(ModelsSupport, ReadsWhatIsWritten) {
  for (const auto* text :
       {"mass > 0", "x < 5", "-1 < x < 2.5", "phi mod 360"}) {
    EXPECT_EQ(nn::to_string(nn::parse_support(text)), text);
  }
  const auto said = [](const char* text) {
    return testing::thrown<std::invalid_argument>(
        [&] { nn::parse_support(text); });
  };
  EXPECT_NE(said("x > much").find("'much' is no number"), std::string::npos);
  EXPECT_NE(said("2 < x < 1").find("larger"), std::string::npos);
  EXPECT_NE(said("phi mod 0").find("above 0"), std::string::npos);
  EXPECT_NE(said("x").find("expected"), std::string::npos);
  EXPECT_NE(said("x > inf").find("no number"), std::string::npos);
}

template <class Flow>
void expect_way_back(Flow& model, double tolerance) {
  const torch::NoGradGuard no_grad;
  const auto x = random({20, 4}, "x"), given = random({20, 2}, "given");
  const auto normal = model.to_normal(x, given);
  EXPECT_TRUE(
      near(model.from_normal(normal.value, given), x, {tolerance, tolerance}));
}

template <class Flow>
void expect_determinant(Flow& model, double tolerance) {
  const auto given = random({1, 1}, "given");
  const auto x = random({1, 3}, "x").requires_grad_();
  const auto normal = model.to_normal(x, given);
  std::vector<Tensor> rows;
  for (int64_t d = 0; d < 3; ++d) {
    rows.push_back(
        torch::autograd::grad({normal.value[0][d]}, {x}, {}, true)[0][0]);
  }
  const auto log_determinant = torch::logdet(torch::stack(rows));
  EXPECT_TRUE(
      near(normal.log_slope[0], log_determinant, {tolerance, tolerance}));
}

class ModelsFlow : public ::testing::TestWithParam<const char*> {
 protected:
  std::shared_ptr<AutoregressiveFlow> flow(const DensityShape& shape) {
    return std::dynamic_pointer_cast<AutoregressiveFlow>(
        made(GetParam(), shape));
  }
};
INSTANTIATE_TEST_SUITE_P(Models, ModelsFlow,
                         ::testing::Values("maf", "spline_flow"));

TEST_P(ModelsFlow, ComesBackFromNormalNumbers) {
  expect_way_back(*flow({4, 2}), 1e-8);
}

TEST_P(ModelsFlow, ItsDeterminantIsThatOfReverseMode) {
  expect_determinant(*flow({3, 1}), 1e-9);
}

class ModelsGaussian : public ::testing::Test {
 protected:
  std::shared_ptr<Gaussian> gaussian(const DensityShape& shape) {
    return std::dynamic_pointer_cast<Gaussian>(made("gaussian", shape));
  }
};

TEST_F(ModelsGaussian, ComesBackFromNormalNumbers) {
  expect_way_back(*gaussian({4, 2}), 1e-10);
}

TEST_F(ModelsGaussian, ItsDeterminantIsThatOfReverseMode) {
  expect_determinant(*gaussian({3, 1}), 1e-10);
}

// Minus the second derivatives of its logarithm are the same everywhere, and
// not those of independent variables.
TEST_F(ModelsGaussian, IsOneNormalDistributionOfAnyCovariance) {
  const auto model = gaussian({3, 1});
  const auto hessian = [&](const Tensor& at) {
    const auto x = at.clone().requires_grad_();
    const auto slope = torch::autograd::grad(
        {model->log_prob(x, given_rows(1, 1)).sum()}, {x}, {}, true, true)[0];
    std::vector<Tensor> rows;
    for (int64_t d = 0; d < 3; ++d) {
      rows.push_back(torch::autograd::grad({slope[0][d]}, {x}, {}, true)[0][0]);
    }
    return torch::stack(rows);
  };
  const auto here = hessian(random({1, 3}, "here"));
  EXPECT_TRUE(near(hessian(10 * random({1, 3}, "there")), here, {1e-9, 1e-9}));
  EXPECT_GT(here[0][1].abs().item<double>(), 1e-3);
}

class ModelsFlowMatching : public ::testing::Test {
 protected:
  // To the error of so many steps.
  std::shared_ptr<FlowMatching> flow(const DensityShape& shape) {
    return std::dynamic_pointer_cast<FlowMatching>(
        made("flow_matching", shape));
  }
};

TEST_F(ModelsFlowMatching, ComesBackFromNormalNumbers) {
  expect_way_back(*flow({4, 2}), 1e-5);
}

TEST_F(ModelsFlowMatching, ItsDeterminantIsThatOfReverseMode) {
  expect_determinant(*flow({3, 1}), 1e-5);
}

// A stream that stands still is off by the whole way from the start, which is
// the normal number of a uniform one.
TEST_F(ModelsFlowMatching, ItsLossIsTheMeanSquareOfTheMissingVelocity) {
  const auto model = flow({2, 0});
  const torch::NoGradGuard no_grad;
  for (auto& item : model->named_parameters()) {
    if (item.key().starts_with("out")) item.value().zero_();
  }
  const auto x = torch::tensor({{1., -2.}, {0.5, 3.}}, torch::kFloat64);
  const auto noise =
      torch::tensor({{0.3, 0.5, 0.975}, {0.9, 0.025, 0.5}}, torch::kFloat64);
  const double q = 1.959963984540054;  // of 97.5 %
  const auto expected = torch::tensor(
      {(1 + (2 + q) * (2 + q)) / 2, ((0.5 + q) * (0.5 + q) + 9) / 2},
      torch::kFloat64);
  EXPECT_TRUE(
      near(model->loss(x, given_rows(2, 0), noise), expected, {1e-10, 1e-10}));
}

}  // namespace
}  // namespace propagator::models
