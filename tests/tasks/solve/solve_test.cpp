#include "propagator/tasks/solve/solve.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include "propagator/pde/residual/problem_checks.h"
#include "tasks/training.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

using testing::kDouble;
using testing::near;
using testing::prepared_model;
using torch::Tensor;

constexpr testing::Tolerance kNested{1e-9, 1e-10};

// Burgers' equation with every kind of condition, all learned, in float64.
run::Experiment experiment(
    const std::string& more,
    const std::string& points =
        "per_axis: 6, sampling: grid, resample_every: 0") {
  return run::Experiment(config::Document::from_text(
      "task: solve\nprecision: fp64\nproblem:\n"
      "  domain: ['x in [-1, 1]', 't in [0, 1]']\n  fields: u\n"
      "  parameters: nu = 0.1\n  equations: u_t + u*u_x = nu*u_xx\n"
      "  conditions:\n    - at t=0: u = -sin(pi*x)\n"
      "    - on x=-1: u_x + 2*u = t\n    - periodic x: u\n"
      "points: {window: 3, window_step: 0.01, " +
          points + "}\n" +
          (more.starts_with("hard_constraints") ? ""
                                                : "hard_constraints: no\n") +
          more,
      "test"));
}

// The same by differentiating again and again in reverse: tokens of a point
// network do not see each other, so that sums of outputs separate.
double nested_equation(models::FieldNet& net, const Tensor& points) {
  const auto x = points.clone().set_requires_grad(true);
  const auto u = net.values(x.unsqueeze(1)).view({-1});
  const auto grad = [&](const Tensor& y) {
    return torch::autograd::grad({y.sum()}, {x}, {}, true, true)[0];
  };
  const auto first = grad(u);
  const auto u_x = first.select(1, 0), u_t = first.select(1, 1);
  const auto u_xx = grad(u_x).select(1, 0);
  return (u_t + u * u_x - 0.1 * u_xx).square().mean().item<double>();
}

TEST(TasksSolve, EquationAgreesWithNestedReverseMode) {
  const auto e =
      experiment("loss: {balance: fixed}\nmodel: {name: pinn, width: 8}\n");
  const auto model = prepared_model(e);
  auto& net = models::as_field_net(*model);
  const auto loss = e.task().loss(*model, data::Split::kTrain,
                                  torch::arange(36, torch::kInt64));
  const auto points =
      pde::sample({{-1, 0}, {1, 1}}, pde::Sampling::kGrid, 6, 0, "");
  ASSERT_EQ(loss.terms.size(), 4u);
  EXPECT_EQ(loss.terms[0].name, "equation");
  EXPECT_NEAR(loss.terms[0].value.item<double>() / nested_equation(net, points),
              1, 1e-10);
  // Conditions, from values alone.
  const auto axis = torch::linspace(-1, 1, 6, torch::kFloat64);
  const auto at = [&](const Tensor& x, double t) {
    return net.values(torch::stack({x, torch::full_like(x, t)}, 1).unsqueeze(1))
        .view({-1});
  };
  EXPECT_EQ(loss.terms[1].name, "at t=0: u");
  EXPECT_TRUE(near(loss.terms[1].value,
                   (at(axis, 0) + torch::sin(M_PI * axis)).square().mean(),
                   kNested));
  EXPECT_EQ(loss.terms[2].name, "on x=-1: u_x + 2*u");
  EXPECT_EQ(loss.terms[3].name, "periodic x");
  EXPECT_GT(loss.total.item<double>(), 0);
}

TEST(TasksSolve, HardConstraintsAreNoTermsOfTheLoss) {
  const auto e =
      experiment("hard_constraints: yes\nmodel: {name: pinn, width: 8}\n");
  const auto model = prepared_model(e);
  const auto loss = e.task().loss(*model, data::Split::kTrain,
                                  torch::arange(36, torch::kInt64));
  // `periodic x: u` is less than a ring.
  ASSERT_EQ(loss.terms.size(), 3u);
  EXPECT_EQ(loss.terms[1].name, "on x=-1: u_x + 2*u");
  EXPECT_EQ(loss.terms[2].name, "periodic x");
  const auto x = torch::linspace(-1, 1, 7, torch::kFloat64);
  const auto start = models::as_field_net(*model).values(
      torch::stack({x, torch::zeros_like(x)}, 1).unsqueeze(1));
  EXPECT_TRUE(near(start.view({-1}), -torch::sin(M_PI * x), kNested));
  const auto lines = e.task().inspect();
  EXPECT_EQ(std::ranges::count(lines, "hard constraint: at t=0: u"), 1);
}

TEST(TasksSolve, AModelOutlivesItsTask) {
  auto e = std::make_optional(
      experiment("hard_constraints: yes\nmodel: {name: pinn, width: 8}\n"));
  const auto model = prepared_model(*e);
  const auto points = torch::linspace(-1, 1, 10, torch::kFloat64);
  const auto values = [&] {
    return models::as_field_net(*model).values(points.view({5, 1, 2}));
  };
  const auto before = values();
  e.reset();
  EXPECT_TRUE(torch::equal(values(), before));
}

TEST(TasksSolve, WindowedModelsHaveAllTokensInTheLoss) {
  const auto e = experiment("model: {name: spformer-small}\n");
  const auto model = prepared_model(e);
  const auto all = torch::arange(36, torch::kInt64);
  const auto whole = e.task().loss(*model, data::Split::kTrain, all);
  // A mean over points: halves average to the whole.
  const auto first =
      e.task().loss(*model, data::Split::kTrain, all.slice(0, 0, 18));
  const auto second =
      e.task().loss(*model, data::Split::kTrain, all.slice(0, 18));
  EXPECT_TRUE(near(whole.total, (first.total + second.total) / 2, kNested));
}

// u = 0 everywhere; how many windows it was asked for.
struct CountingNet : models::FieldNet {
  autodiff::Jet forward(const autodiff::Jet& points) override {
    windows += points.rows().size(1);
    return {torch::zeros_like(points.rows().narrow(-1, 0, 1)), points.layout()};
  }
  int64_t windows = 0;
};

TEST(TasksSolve, ConditionsOnOneFaceShareItsPoints) {
  const run::Experiment e(config::Document::from_text(
      "task: solve\nprecision: fp64\nproblem:\n"
      "  domain: ['x in [0, 1]', 't in [0, 1]']\n  fields: u\n"
      "  equations: u_tt = u_xx\n"
      "  conditions: ['at t=0: u = sin(pi*x)', 'on x=0: u = 0',"
      " 'at t=0: u_t = x', 'on x=1: u = 0']\n"
      "points: {per_axis: 6, adaptive: no, sampling: uniform,"
      " resample_every: 1}\nhard_constraints: no\n"
      "model: {name: pinn, width: 8}\n",
      "test"));
  const auto model = prepared_model(e);
  const auto expect_shared = [&] {
    // u and u_t of the start are asked for at the same x.
    const auto state = e.task().state();
    EXPECT_FALSE(state.contains("face.2"));
    const auto start = state.at("face.0");
    const auto x = start.select(-1, 0).flatten();
    const auto loss = e.task().loss(*model, data::Split::kTrain,
                                    torch::arange(36, torch::kInt64));
    const auto places = start.clone().set_requires_grad(true);
    const auto u = models::as_field_net(*model).values(places).flatten();
    const auto u_t =
        torch::autograd::grad({u.sum()}, {places})[0].select(-1, 1).flatten();
    EXPECT_TRUE(near(loss.terms[1].value,
                     (u - torch::sin(M_PI * x)).square().mean(), kNested));
    EXPECT_TRUE(near(loss.terms[3].value, (u_t - x).square().mean(), kNested));
    return start.clone();
  };
  const auto before = expect_shared();
  e.task().begin_step(*model, 1);
  EXPECT_FALSE(torch::equal(before, expect_shared()));
  CountingNet zero;
  e.task().loss(zero, data::Split::kTrain, torch::arange(36, torch::kInt64));
  EXPECT_EQ(zero.windows, 36 + 3 * 6);  // not 4 * 6
}

TEST(TasksSolve, PointsAreSampledAsAsked) {
  for (const std::string sampling :
       {"grid", "uniform", "latin_hypercube", "sobol"}) {
    const auto kind = config::value_of<pde::Sampling>(sampling);
    const auto points = pde::sample({{-1, 0}, {1, 3}}, kind, 7, 5, "p");
    ASSERT_EQ(points.sizes(), (std::vector<int64_t>{49, 2})) << sampling;
    for (const auto& [axis, low, high] : {std::tuple{0, -1, 1}, {1, 0, 3}}) {
      EXPECT_GE(points.select(1, axis).min().item<double>(), low) << sampling;
      EXPECT_LE(points.select(1, axis).max().item<double>(), high) << sampling;
    }
    // Spread evenly: the mean is near the middle.
    EXPECT_NEAR(points.select(1, 1).mean().item<double>(), 1.5, 0.4);
    const auto again = pde::sample({{-1, 0}, {1, 3}}, kind, 7, 5, "p");
    EXPECT_TRUE(torch::equal(points, again));
    if (kind == pde::Sampling::kGrid) continue;
    const auto other = pde::sample({{-1, 0}, {1, 3}}, kind, 7, 5, "p", 1);
    EXPECT_FALSE(torch::equal(points, other)) << sampling;
  }
  // One point in each cell of a Latin hypercube, along each variable.
  const auto latin =
      pde::sample({{0, 0}, {1, 1}}, pde::Sampling::kLatinHypercube, 7, 5, "p");
  for (int64_t d = 0; d < 2; ++d) {
    const auto cells = std::get<0>((latin.select(1, d) * 49).floor().sort());
    EXPECT_TRUE(torch::equal(cells, torch::arange(49, torch::kFloat64)));
  }
  // Sobol's points find the mean of x y far better than uniform ones, which are
  // off by 1.1e-2.
  double off = 0;
  for (int64_t seed = 0; seed < 20; ++seed) {
    const auto sobol =
        pde::sample({{0, 0}, {1, 1}}, pde::Sampling::kSobol, 16, seed, "p");
    off += std::abs(sobol.prod(1).mean().item<double>() - 0.25) / 20;
  }
  EXPECT_LT(off, 4e-3);
}

// A run of some steps, new or from a checkpoint of it.
class TasksSolveRun
    : public ::testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  static constexpr int64_t kSteps = 6;

  train::Checkpoint run(const std::string& name,
                        const std::optional<std::filesystem::path>& from) {
    const auto e = experiment(
        "model: {name: spformer-small, hidden: 8, feed_forward: 8}\n"
        "lbfgs: {iterations: 3}\ntrain: {epochs: 6, checkpoint_every: 1, "
        "keep_checkpoints: 9}\n" +
            std::string(GetParam().first),
        std::string("per_axis: 6, ") + GetParam().second);
    return testing::trained_to(kSteps, e, kDouble, folder / name, from);
  }

  testing::TemporaryFolder folder;
};

TEST_P(TasksSolveRun, ResumesToTheSameBitsWhilePointsOrWeightsChange) {
  const auto whole = run("whole", {});
  // Between the changes, and at one.
  for (const int64_t step : {3, 4}) {
    const auto again =
        run(fmt::format("again-{}", step),
            train::checkpoint_path(folder / "whole" / "checkpoints", step));
    for (const auto& [name, value] : whole.model) {
      EXPECT_TRUE(torch::equal(again.model.at(name), value)) << name;
    }
    for (const auto& [name, value] : whole.optimizer) {
      EXPECT_TRUE(torch::equal(again.optimizer.at(name), value)) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Tasks, TasksSolveRun,
    ::testing::Values(
        std::pair("", "resample_every: 0"),
        std::pair("loss: {balance: gradient_norm, balance_every: 2}\n",
                  "resample_every: 0"),
        std::pair("loss: {balance: ntk, balance_every: 2}\n",
                  "resample_every: 0"),
        std::pair("loss: {balance: uncertainty}\n", "resample_every: 0"),
        std::pair("loss: {causality: 0.1, slabs: 4}\n", "resample_every: 2"),
        std::pair("derivatives: published\n", "resample_every: 0"),
        std::pair("", "adaptive: no, resample_every: 2"),
        std::pair("", "sampling: grid, resample_every: 2")));

// Where a step's points are, with a model whose residual is large on one side.
TEST(TasksSolve, AdaptivePointsGoWhereTheResidualIsLarge) {
  const auto e = experiment("model: {name: pinn, width: 4, layers: 1}\n",
                            "per_axis: 20, resample_every: 1");
  const auto model = prepared_model(e);
  {
    // u = tanh(20 (x - 0.5)) / 20: a residual near x = 0.5 alone.
    const torch::NoGradGuard no_grad;
    for (auto& parameter : model->parameters()) parameter.zero_();
    auto parameters = model->parameters();
    parameters[0][0][0] = 20;
    parameters[1][0] = -10;
    parameters[2][0][0] = 1;
  }
  const auto share = [&] {
    const auto x = e.task().state().at("points").select(-1, 0);
    return ((x - 0.5).abs() < 0.15).to(torch::kFloat64).mean().item<double>();
  };
  EXPECT_NEAR(share(), 0.15, 0.06);
  e.task().begin_step(*model, 1);
  const double first = share();
  EXPECT_GT(first, 0.25);
  const auto points = e.task().state().at("points").clone();
  e.task().begin_step(*model, 1);  // the same step has the same points
  EXPECT_TRUE(torch::equal(points, e.task().state().at("points")));
  e.task().begin_step(*model, 2);
  EXPECT_FALSE(torch::equal(points, e.task().state().at("points")));
}

TEST(TasksSolve, AnEquationAloneHasNothingToBeBalancedWith) {
  const run::Experiment e(config::Document::from_text(
      "task: solve\nprecision: fp64\nproblem:\n"
      "  domain: ['x in [0, 2*pi]', 't in [0, 1]']\n  fields: u\n"
      "  equations: u_t = -u\n"
      "  conditions: ['at t=0: u = sin(x)', periodic x]\n"
      "points: {per_axis: 6, resample_every: 0}\n"
      "loss: {balance: ntk}\nmodel: {name: pinn, width: 8}\n",
      "test"));
  const auto model = prepared_model(e);
  e.task().begin_step(*model, 0);
  EXPECT_TRUE(e.task().state().empty());
  const auto loss = e.task().loss(*model, data::Split::kTrain,
                                  torch::arange(36, torch::kInt64));
  EXPECT_EQ(loss.terms.size(), 1u);
}

TEST(TasksSolve, BalancedWeightsMoveFromThoseOfTheConfiguration) {
  const auto e = experiment(
      "model: {name: pinn, width: 8}\n"
      "loss: {balance: gradient_norm, balance_rate: 1, initial: 3}\n");
  const auto model = prepared_model(e);
  const auto before = e.task().state().at("weights").clone();
  EXPECT_EQ(before[1].item<double>(), 3);
  e.task().begin_step(*model, 0);
  const auto weights = e.task().state().at("weights").clone();
  EXPECT_EQ(weights[0].item<double>(), 1);
  EXPECT_NE(weights[1].item<double>(), 3);
  // Now every weighted term has a gradient of one length. Of one alone: by the
  // difference that twice its weight makes.
  const auto gradient = [&] {
    const auto loss = e.task().loss(*model, data::Split::kTrain,
                                    torch::arange(36, torch::kInt64));
    std::vector<Tensor> flat;
    for (const auto& part :
         torch::autograd::grad({loss.total}, model->parameters())) {
      flat.push_back(part.flatten());
    }
    return torch::cat(flat);
  };
  const auto all = gradient();
  std::vector<double> lengths;
  for (int64_t n = 0; n < weights.size(0); ++n) {
    auto state = e.task().state();
    const auto more = weights.clone();
    more[n] *= 2;
    state.at("weights") = more;
    e.task().restore(state);
    lengths.push_back((gradient() - all).norm().item<double>());
    state.at("weights") = weights;
    e.task().restore(state);
  }
  for (const double length : lengths) {
    EXPECT_NEAR(length, lengths.front(), 1e-9 * lengths.front());
  }
  const auto loss = e.task().loss(*model, data::Split::kTrain,
                                  torch::arange(36, torch::kInt64));
  EXPECT_EQ(loss.terms.size(), 8u);  // four, and their weights
  EXPECT_EQ(loss.terms[5].value.item<double>(), weights[1].item<double>());
}

TEST(TasksSolve, LaterPointsCountOnceEarlierOnesAreSolved) {
  const std::string model = "model: {name: pinn, width: 8}\n";
  const auto equation = [&](const std::string& loss, bool ordered) {
    const auto e = experiment(model + loss);
    const auto net = prepared_model(e);
    if (ordered) e.task().begin_step(*net, 0);
    // Point by point: 6 in x, and in t, which varies fastest.
    std::vector<double> squares;
    for (int64_t n = 0; n < 36; ++n) {
      squares.push_back(e.task()
                            .loss(*net, data::Split::kTrain,
                                  torch::full({1}, n, torch::kInt64))
                            .terms[0]
                            .value.item<double>());
    }
    return torch::tensor(squares, torch::kFloat64).view({6, 6});
  };
  const auto plain = equation("", false);
  const auto ordered = equation("loss: {causality: 3, slabs: 6}\n", true);
  // Six times fall into slabs 0, 1, 2, 3, 4 and, the last, 5.
  const auto means = plain.mean(0);
  const auto counts = torch::exp(-3 * (means.cumsum(0) - means));
  EXPECT_TRUE(near(ordered, plain * counts, kNested));
  EXPECT_LT(counts[5].item<double>(), 0.9);  // or the test would tell nothing
}

TEST(TasksSolve, WhatCannotBeTrainedIsRefused) {
  for (const auto& [more, what] :
       {std::pair{"eval: {per_axis: 100000}\n", "1e+10 in all"},
        std::pair{"loss: {equation: 0, initial: 0, boundary: 0}\n",
                  "all weights of the loss are 0"},
        std::pair{"eval: {quantities: [w]}\n", "eval.quantities"}}) {
    EXPECT_NE(testing::thrown<UsageError>([&, m = more] {
                experiment(m);
              }).find(what),
              std::string::npos)
        << more;
  }
}

TEST(TasksSolve, MoreVariablesHaveFewerPointsAlongEach) {
  const auto points = [](const std::string& recipe, const std::string& domain) {
    const run::Experiment e(config::Document::from_text(
        "task: solve\nrecipe: " + recipe +
            "\nproblem: {fields: u, equations: u_x = 0, domain: [" + domain +
            "], conditions: ['on x=0: u = 0']}\n",
        "test"));
    e.task().prepare(0, {});
    return e.task().size(data::Split::kTrain);
  };
  const std::string two = "'x in [0, 1]', 'y in [0, 1]'",
                    three = two + ", 't in [0, 1]'";
  EXPECT_EQ(points("network", two), 31 * 31);
  EXPECT_EQ(points("network", three), 13 * 13 * 13);
  EXPECT_EQ(points("precise", two), 51 * 51);
  EXPECT_EQ(points("precise", three), 15 * 15 * 15);
}

TEST(TasksSolve, ContradictionsAreRefused) {
  EXPECT_THROW(experiment("", "sampling: grid, adaptive: no"), ConfigError);
  EXPECT_THROW(experiment("loss: {balance: ntk, boundary: 0}\n"), ConfigError);
}

}  // namespace
}  // namespace propagator::tasks
