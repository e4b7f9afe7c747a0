#include "propagator/pde/residual/residuals.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include "propagator/models/field_net.h"
#include "tasks/training.h"
#include "testing.h"

namespace propagator::pde {
namespace {

using testing::kDouble;
using testing::near;
using torch::Tensor;

constexpr testing::Tolerance kResidual{1e-10, 1e-11};

pde::Problem burgers() {
  return pde::Problem::parse(
      {.domain = {"x in [-1, 1]", "t in [0, 1]"},
       .fields = {"u"},
       .parameters = {"nu = 0.1"},
       .equations = {"u_t + u*u_x = nu*u_xx"},
       .conditions = {"at t=0: u = -sin(pi*x)", "on x=-1: u_x + 2*u = t",
                      "periodic x"}});
}

std::shared_ptr<models::FieldNet> network(const std::string& name) {
  const auto options = models::field_nets().at(name).options();
  auto net = options->make({{-1, 0}, {1, 1}, 1, 1});
  net->initialise(3);
  net->to(torch::kFloat64);
  return net;
}

// 4 points followed by 3 tokens each, `step` apart.
Tensor some_windows(double step = 0.05) {
  auto windows = torch::linspace(-0.8, 0.7, 8, torch::kFloat64)
                     .view({4, 1, 2})
                     .repeat({1, 3, 1});
  windows.select(-1, 1).abs_();
  windows.select(-1, 1) += torch::arange(3, torch::kFloat64) * step;
  return windows;
}

// The Jacobian between tokens of a window, ∂u_i/∂x_j for variable `d`.
Tensor token_jacobian(models::FieldNet& net, const Tensor& window, int64_t d) {
  const auto places = window.clone().set_requires_grad(true);  // (1, T, D)
  const auto u = net.values(places).flatten();
  std::vector<Tensor> rows;
  for (int64_t i = 0; i < u.size(0); ++i) {
    rows.push_back(torch::autograd::grad({u[i]}, {places}, {}, true)[0]
                       .select(-1, d)
                       .flatten());
  }
  return torch::stack(rows);
}

TEST(PdeResiduals, HonestAreRowSumsAndPublishedColumnSums) {
  const auto net = network("spformer-small");
  const auto windows = some_windows();
  const std::set<autodiff::Derivative> first{{0, {1, 0}}, {0, {0, 1}}};
  const Probe honest({first, 2}, Derivatives::kHonest, kDouble);
  const Probe published({first, 2}, Derivatives::kPublished, kDouble);
  const auto rows = honest.at(*net, windows);
  const auto columns = published.at(*net, windows);
  double apart = 0;
  for (const auto& derivative : first) {
    const int64_t d = derivative.orders[1];
    for (int64_t n = 0; n < windows.size(0); ++n) {
      const auto jacobian = token_jacobian(*net, windows.slice(0, n, n + 1), d);
      EXPECT_TRUE(
          near(rows.field(derivative).value()[n], jacobian.sum(1), kResidual));
      EXPECT_TRUE(near(columns.field(derivative).value()[n], jacobian.sum(0),
                       kResidual));
      apart = std::max(
          apart,
          (jacobian.sum(1) - jacobian.sum(0)).abs().max().item<double>());
    }
  }
  EXPECT_GT(apart, 1e-4);  // or the test would tell nothing
}

// How far u_t as published is from the honest one where tokens lie near.
double distance_of_kinds(const std::string& name) {
  const auto net = network(name);
  const autodiff::Derivative u_t{0, {0, 1}};
  const auto at = [&](Derivatives kind) {
    return Probe({{u_t}, 2}, kind, kDouble)
        .at(*net, some_windows(1e-6))
        .field(u_t)
        .value();
  };
  const auto honest = at(Derivatives::kHonest);
  return ((at(Derivatives::kPublished) - honest).norm() / honest.norm())
      .item<double>();
}

TEST(PdeResiduals, NearbyTokensTellTheKindsApartInCausalNetworksAlone) {
  for (const std::string name :
       {"pinnsformer", "spformer", "spformer-rope", "spformer-alibi"}) {
    EXPECT_LT(distance_of_kinds(name), 1e-4) << name;
  }
  EXPECT_GT(distance_of_kinds("pinn-mamba"), 1e-3);
}

TEST(PdeResiduals, BothKindsAgreeWhereTokensDoNotSeeEachOther) {
  const auto problem = burgers();
  const auto net = network("pinn");
  const auto windows = some_windows();
  const auto residual = [&](Derivatives kind) {
    return Residuals(problem, kind, kDouble).of_equations(*net, windows)[0];
  };
  const auto honest = residual(Derivatives::kHonest);
  const auto published = residual(Derivatives::kPublished);
  EXPECT_TRUE(near(honest, published, kResidual));
  // And so do the gradients that training descends on.
  const auto parameters = net->parameters();
  const auto a = torch::autograd::grad({honest.square().mean()}, parameters, {},
                                       {}, false, true);
  const auto b = torch::autograd::grad({published.square().mean()}, parameters,
                                       {}, {}, false, true);
  for (size_t p = 0; p < a.size(); ++p) {
    ASSERT_EQ(a[p].defined(), b[p].defined());
    if (!a[p].defined()) continue;
    EXPECT_TRUE(near(a[p], b[p], {1e-8, 1e-10})) << p;
  }
}

TEST(PdeResiduals, PublishedOnesNeedNoGradientOutsideTraining) {
  const torch::NoGradGuard no_grad;
  const auto problem = burgers();
  const auto net = network("spformer-small");
  const auto residual = Residuals(problem, Derivatives::kPublished, kDouble)
                            .of_equations(*net, some_windows())[0];
  EXPECT_FALSE(residual.requires_grad());
}

TEST(PdeResiduals, FacesTogetherGiveWhatEachGivesAlone) {
  const auto problem = burgers();
  const auto net = network("spformer-small");
  const auto windows = some_windows();
  auto left = windows.clone(), right = windows.clone(), start = windows.clone();
  left.select(-1, 0).fill_(-1);
  right.select(-1, 0).fill_(1);
  start.select(-1, 1) -= start.select(-1, 1).narrow(1, 0, 1).clone();
  const std::vector<Face> faces{
      {&problem.conditions[0], true, start.slice(0, 0, 2)},
      {&problem.conditions[1], false, left},
      {&problem.conditions[2], false, left.slice(0, 0, 3),
       right.slice(0, 0, 3)}};
  for (const auto kind : {Derivatives::kHonest, Derivatives::kPublished}) {
    const Residuals residuals(problem, kind, kDouble);
    const auto all = residuals.of_faces(*net, faces);
    ASSERT_EQ(all.size(), 3u);
    ASSERT_EQ(all[0].size(), 1u);
    // At a time, of the first token alone: the others are later.
    EXPECT_EQ(all[0][0].sizes(), (std::vector<int64_t>{2, 1}));
    EXPECT_EQ(all[1][0].sizes(), (std::vector<int64_t>{4, 3}));
    ASSERT_EQ(all[2].size(), 2u);  // u and u_x
    for (size_t n = 0; n < faces.size(); ++n) {
      const auto alone = residuals.of_faces(*net, {faces[n]}).front();
      for (size_t q = 0; q < alone.size(); ++q) {
        EXPECT_TRUE(near(all[n][q], alone[q], kResidual)) << n;
      }
    }
    const auto u = net->values(start.slice(0, 0, 2)).select(-1, 0);
    const auto x = start.slice(0, 0, 2).select(-1, 0);
    EXPECT_TRUE(
        near(all[0][0], (u + torch::sin(M_PI * x)).narrow(1, 0, 1), kResidual));
  }
}

// Where a jet carries the sum of second derivatives, the residual is what all
// of them by themselves give.
TEST(PdeResiduals, ASumOfSecondDerivativesChangesNothing) {
  const auto problem = pde::Problem::parse(
      {.domain = {"x in [-1, 1]", "t in [0, 1]"},
       .fields = {"u"},
       .equations = {"u_tt + 0.3*u_t = 2.5*u_xx + sin(u)*u_x"},
       .conditions = {"at t=0: u = 0", "at t=0: u_t = 0"}});
  ASSERT_EQ(problem.second_order_sum().size(), 2u);
  const auto net = network("pinnsformer");
  const auto windows = some_windows();
  const Probe each(problem.plan(), Derivatives::kHonest, kDouble);
  EXPECT_TRUE(
      near(Residuals(problem, Derivatives::kHonest, kDouble)
               .of_equations(*net, windows)[0],
           problem.equations[0].evaluate(each.at(*net, windows)).value(),
           kResidual));
}

TEST(PdeResiduals, FormulasAreNotAskedBeyondTheLastTime) {
  const auto problem =
      pde::Problem::parse({.domain = {"x in [-1, 1]", "t in [0, 1]"},
                           .fields = {"u"},
                           .equations = {"u_x = sqrt(1 - t)"},
                           .conditions = {"on x=-1: u = sqrt(1 - t)"}});
  const auto net = network("pinn");
  const auto windows = some_windows();
  windows.select(-1, 1).copy_(
      torch::tensor({0.91, 1.0, 1.09}, torch::kFloat64).expand({4, 3}));
  const Residuals residuals(problem, Derivatives::kHonest, kDouble);
  const Probe probe(problem.plan(), Derivatives::kHonest, kDouble);
  const auto given = torch::tensor({0.3, 0.0, 0.0}, torch::kFloat64);
  EXPECT_TRUE(near(residuals.of_equations(*net, windows)[0],
                   probe.at(*net, windows).field({0, {1, 0}}).value() - given,
                   kResidual));
  const Face face{problem.conditions.data(), /*first_token=*/false, windows};
  EXPECT_TRUE(near(residuals.of_faces(*net, {face})[0][0],
                   net->values(windows).select(-1, 0) - given, kResidual));
}

// Both in one pass through the network, as on a GPU.
class PdeResidualsOf : public ::testing::TestWithParam<std::string> {};

TEST_P(PdeResidualsOf, EverywhereIsEquationsAndFaces) {
  const auto problem = pde::Problem::parse(
      {.domain = {"x in [-1, 1]", "t in [0, 1]"},
       .fields = {"u"},
       .equations = {GetParam()},
       .conditions = {"at t=0: u = -sin(pi*x)", "at t=0: u_t = 0",
                      "on x=-1: u_x + 2*u = t", "periodic x"}});
  for (const auto& device : testing::devices()) {
    const auto net = network("pinnsformer");
    net->to(device);
    const auto windows = some_windows().to(device);
    std::vector<Face> faces;
    for (const auto& condition : problem.conditions) {
      faces.push_back({&condition, /*first_token=*/true, windows * 0.5});
      if (condition.is_periodic()) faces.back().opposite = windows * 0.3;
    }
    const Residuals residuals(problem, Derivatives::kHonest,
                              {device, Precision::kFloat64}, /*at_once=*/true);
    const auto all = residuals.everywhere(*net, windows, faces);
    EXPECT_TRUE(near(all.equations[0], residuals.of_equations(*net, windows)[0],
                     kResidual));
    const auto on_faces = residuals.of_faces(*net, faces);
    ASSERT_EQ(all.faces.size(), on_faces.size());
    for (size_t f = 0; f < on_faces.size(); ++f) {
      ASSERT_EQ(all.faces[f].size(), on_faces[f].size());
      for (size_t n = 0; n < on_faces[f].size(); ++n) {
        EXPECT_TRUE(near(all.faces[f][n], on_faces[f][n], kResidual));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tasks, PdeResidualsOf,
                         ::testing::Values("u_t + u*u_x = 0.1*u_xx",
                                           "u_tt = 2*u_xx + u"));

}  // namespace
}  // namespace propagator::pde
