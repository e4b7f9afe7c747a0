#include "propagator/tasks/solve/solve.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/core/log.h"
#include "propagator/pde/residual/problem_box.h"
#include "propagator/pde/residual/problem_checks.h"
#include "propagator/tasks/loss_weight.h"

namespace propagator::tasks {
namespace {

using models::as_field_net;
using torch::Tensor;

// An exact solution is one that leaves no more of equations and conditions,
// beside their terms. Some meet a condition at infinity, not on its face.
constexpr double kExactlySolved = 1e-9;
constexpr double kExactlyMet = 1e-6;

// More would not fit into memory.
constexpr double kMostPoints = 1e8;

// Learned weights, as the logarithms of variances: a parameter of the model.
// A weight goes to 1e8 at most.
constexpr const char* kLogVariances = "log_variances";
constexpr double kLeastLogVariance = -18.4;

// Else it is on another face.
bool is_initial(const pde::Problem& problem, const pde::Condition& condition) {
  return condition.variable == problem.time();
}

// "at t=0: u", for a line of progress.
std::string short_name(const pde::Problem& problem,
                       const pde::Condition& condition) {
  const auto variable = static_cast<size_t>(condition.variable);
  const auto& name = problem.symbols.variables[variable];
  if (condition.is_periodic()) {
    return fmt::format("periodic {}", name);
  }
  const auto after = condition.text.substr(condition.text.find(':') + 1);
  auto left = after.substr(0, after.find('='));
  left.erase(left.find_last_not_of(' ') + 1);
  return fmt::format("{} {}={:g}:{}",
                     is_initial(problem, condition) ? "at" : "on", name,
                     condition.at, left);
}

// Short where that is the name of one condition alone.
std::vector<std::string> condition_names(const pde::Problem& problem) {
  std::vector<std::string> short_names, names;
  for (const auto& condition : problem.conditions) {
    short_names.push_back(short_name(problem, condition));
  }
  for (size_t n = 0; n < short_names.size(); ++n) {
    const bool alone = std::ranges::count(short_names, short_names[n]) == 1;
    names.push_back(alone ? short_names[n]
                          : problem.text(problem.conditions[n]));
  }
  return names;
}

}  // namespace

void ProblemOptions::describe(config::Schema& s) {
  s.field("domain", text.domain,
          {.help = "interval of each variable, as x in [0, 1]"});
  s.field("fields", text.fields, {.help = "names of what is solved for"});
  s.field("parameters", text.parameters,
          {.help = "names for numbers in the formulas, as c = 2"});
  s.field("equations", text.equations,
          {.help = "the equations, as u_tt = c^2*u_xx"});
  s.field("conditions", text.conditions,
          {.help = "initial and boundary conditions, as at t=0: u = sin(x); "
                   "on x=0: u = 0; periodic x"});
  s.field(
      "exact", text.exact,
      {.help = "the exact solution, if it is known, as u = sin(x)*exp(-t)"});
}

void PointOptions::describe(config::Schema& s) {
  s.field("sampling", sampling,
          {.help = "how the first points of domain and faces are chosen"});
  s.field("per_axis", per_axis,
          {.help = "training points along each variable",
           .min = 2,
           .max = 100000,
           .memory = true});
  s.field("window", window,
          {.help = "tokens that follow a point through time, for models "
                   "whose tokens attend to each other",
           .min = 1,
           .max = 64});
  s.field("window_step", window_step,
          {.help = "time between two tokens of a window, in units of time",
           .min = 0});
  s.field("validation_per_axis", validation_per_axis,
          {.help = "validation points along each variable", .min = 1});
  s.field("resample_every", resample_every,
          {.help = "steps after which the training points are resampled; 0 "
                   "keeps the first ones",
           .unit = "steps",
           .min = 0});
  s.field("adaptive", adaptive,
          {.help = "resampled points of the domain lie where the residual is "
                   "large"});
}

void SolveLossOptions::describe(config::Schema& s) {
  s.field("equation", equation,
          loss_weight("weight of the equations' residuals"));
  s.field("initial", initial, loss_weight("weight of the initial conditions"));
  s.field("boundary", boundary,
          loss_weight("weight of the boundary conditions"));
  s.field("balance", balance,
          {.help = "how the weights of the loss change in training"});
  s.field("balance_every", balance_every,
          {.help = "steps between changes of the weights by gradient_norm and "
                   "ntk",
           .unit = "steps",
           .min = 1});
  s.field("balance_rate", balance_rate,
          {.help = "how far the weights go to the balanced ones at each change",
           .min = 0,
           .max = 1});
  s.field("causality", causality,
          {.help = "c of exp(-c * mean squared residual at earlier times), by "
                   "which points count; 0 counts all alike",
           .min = 0});
  s.field("slabs", slabs,
          {.help = "slabs of time that loss.causality takes the means over",
           .min = 2,
           .max = 10000});
}

void SolveEvalOptions::describe(config::Schema& s) {
  s.field(
      "per_axis", per_axis,
      {.help = "test points along each variable", .min = 2, .memory = true});
  s.field("quantities", quantities,
          {.help = "fields and derivatives that predict writes; if there are "
                   "none, the fields"});
  s.field("classical", classical,
          {.help = "say what a classical method needs for the same error, and "
                   "use one where no exact solution is given"});
}

Solve::Solve(std::unique_ptr<models::FieldNetOptions> model, int64_t variables)
    : variables_(variables), model_options_(std::move(model)) {}

void Solve::describe(config::Schema& s) {
  using enum config::Role;
  s.section("problem", problem_options_);
  s.section("points", points_);
  s.field("model.name", model_name_,
          {.help = "name of the network; `propagator list` shows the names",
           .role = kModel});
  s.section("model", *model_options_, kModel);
  s.section("loss", loss_options_, kLoss);
  s.field("derivatives", derivatives_,
          {.help = "derivatives of a window's tokens: published, as in the "
                   "scripts of the S-Pformer paper, solves another equation",
           .role = kModel});
  s.field("hard_constraints", hard_constraints_,
          {.help = "initial and periodic conditions are hard constraints: yes, "
                   "where the network stays smooth; all, also where it then "
                   "has a corner; no, all are terms of the loss",
           .role = kModel,
           .formerly = "built_in"});
  s.section("eval", eval_options_, kEvaluation);
}

std::map<std::string, std::string> Solve::defaults() const {
  std::map<std::string, std::string> all{
      {"optimizer.kind", "lbfgs"}, {"train.batch", "0"},
      {"train.epochs", "160"},     {"train.validate_every", "10"},
      {"train.log_every", "5"},    {"train.checkpoint_every", "50"}};
  if (variables_ < 3) return all;
  // As many points along each of them as along two would be too many.
  const bool three = variables_ == 3;
  all["points.per_axis"] = three ? "13" : "7";
  all["points.validation_per_axis"] = three ? "10" : "6";
  all["eval.per_axis"] = three ? "31" : "11";
  return all;
}

void Solve::validate() {
  try {
    problem_ = pde::Problem::parse(problem_options_.text);
  } catch (const pde::ProblemError& error) {
    throw ConfigError("problem." + error.list(), error.what(), error.hint(),
                      error.item());
  }
  condition_names_ = condition_names(*problem_);
  if (hard_constraints_ == HardConstraints::kNo) {
    initial_conditions_ = {};
    periodic_ = {};
  } else {
    initial_conditions_ = pde::HardInitialConditions(
        *problem_, hard_constraints_ == HardConstraints::kAll);
    periodic_ = pde::PeriodicEmbedding(*problem_);
  }
  model_options_->validate(periodic_.seen(domain()));
  if (points_.resample_every > 0 && !points_.adaptive &&
      points_.sampling == pde::Sampling::kGrid) {
    throw ConfigError("points.resample_every",
                      "a grid that is resampled is the same grid",
                      "set points.resample_every=0, points.sampling=sobol, or "
                      "points.adaptive=yes");
  }
  if (loss_options_.causality > 0 && problem_->time() < 0) {
    throw ConfigError("loss.causality", "the problem has no time",
                      "the variable named t is time");
  }
  const auto weights = fixed_weights();
  if (std::ranges::all_of(weights, [](double weight) { return weight == 0; })) {
    throw ConfigError("loss.equation", "all weights of the loss are 0",
                      "set loss.equation, loss.initial or loss.boundary");
  }
  if (loss_options_.balance != pde::Balance::kFixed) {
    for (const double weight : weights) {
      if (weight > 0) continue;
      throw ConfigError("loss.balance",
                        "weights that change must begin above 0",
                        "set loss.equation, loss.initial and loss.boundary, "
                        "or loss.balance=fixed");
    }
  }
  expect_smooth_enough(problem_->all_derivatives(), "the problem needs");
  quantities();
  expect_countable("points.per_axis", points_.per_axis);
  expect_countable("points.validation_per_axis", points_.validation_per_axis);
  expect_countable("eval.per_axis", eval_options_.per_axis);
}

std::vector<train::UnusedOption> Solve::unused_options() const {
  std::vector<train::UnusedOption> unused;
  if (tokens() == 1) {
    unused.push_back(
        {"derivatives",
         "no token sees another, so that published and honest ones "
         "are the same"});
  }
  const auto learned = learned_conditions();
  const auto initial = [&](const pde::Condition* condition) {
    return is_initial(*problem_, *condition);
  };
  if (std::ranges::none_of(learned, initial)) {
    unused.push_back(
        {"loss.initial", "no initial condition is a term of the loss"});
  }
  if (std::ranges::all_of(learned, initial)) {
    unused.push_back(
        {"loss.boundary", "no boundary condition is a term of the loss"});
  }
  return unused;
}

void Solve::expect_countable(const char* key, int64_t per_axis) const {
  const auto variables = problem_->domain.size();
  const double points = std::pow(static_cast<double>(per_axis), variables);
  if (points <= kMostPoints) return;
  throw ConfigError(key,
                    fmt::format("{} points along each of {} variables are "
                                "{:.0e} in all, more than {:.0e}",
                                per_axis, variables, points, kMostPoints),
                    fmt::format("lower {}", key));
}

void Solve::expect_smooth_enough(const std::set<autodiff::Derivative>& named,
                                 const char* needed) const {
  const int64_t smooth = model_options_->smoothness();
  for (const auto& derivative : named) {
    if (smooth < 0 || derivative.order() <= smooth) continue;
    throw ConfigError(
        "model.name",
        fmt::format("this model has derivatives to order {} only, and {} {}",
                    smooth, needed, derivative.text(problem_->symbols)),
        "choose another model, or a spline of a higher degree");
  }
}

std::vector<std::string> Solve::inspect() {
  prepare(0, {});
  std::vector<std::string> lines;
  config::parse(problem_->describe(), {}, lines);
  lines.push_back(fmt::format("{} points in the domain, {} tokens each",
                              windows_.size(0), windows_.size(1)));
  for (const auto& condition : problem_->conditions) {
    if (!is_hard(condition)) continue;
    lines.push_back(fmt::format("hard constraint: {}", name_of(condition)));
  }
  for (const auto& face : faces_) {
    lines.push_back(fmt::format("{} points: {}", face.windows.size(0),
                                name_of(*face.condition)));
  }
  if (problem_->exact.empty()) return lines;
  lines.push_back(
      fmt::format("the exact solution has a residual of {:.1e} at most",
                  pde::ExactSolution(*problem_).residual_of_equations()));
  return lines;
}

void Solve::expect_exact_solution() const {
  if (problem_->exact.empty()) return;
  const char* hint =
      "correct it, or leave it out: then a numerical one is computed";
  const pde::ExactSolution exact(*problem_);
  const double violation = exact.residual_of_equations();
  if (!(violation < kExactlySolved)) {
    throw ConfigError(
        "problem.exact",
        fmt::format("problem.exact does not solve the equations: it has a "
                    "residual of {:.3g}, relative to their terms",
                    violation),
        hint);
  }
  for (const auto& condition : problem_->conditions) {
    const double off = exact.residual_of(condition);
    if (off < kExactlyMet) continue;
    throw ConfigError(
        "problem.exact",
        fmt::format("problem.exact does not meet the condition {}: it is off "
                    "by {:.3g}, relative to its terms",
                    condition.text, off),
        hint);
  }
}

void Solve::expect_finite_formulas() const {
  const auto expect = [&](const char* list, const std::string& text,
                          const pde::Expression& formula,
                          const Tensor& points) {
    const auto where = pde::where_not_finite(*problem_, formula, points);
    if (where.empty()) return;
    throw ConfigError(list, fmt::format("{} is not finite at {}", text, where),
                      "change the formula, the domain or the points");
  };
  const auto tested = test_points();
  for (const auto& equation : problem_->equations) {
    for (const auto& points : {windows_, tested}) {
      expect("problem.equations", equation.text() + " = 0", equation, points);
    }
  }
  for (const auto& exact : problem_->exact) {
    expect("problem.exact", exact.text(), exact, tested);
  }
  for (const auto& condition : problem_->conditions) {
    if (condition.is_periodic()) continue;
    expect("problem.conditions", condition.text, condition.residual,
           face_of(condition, 0).windows);
  }
}

models::FieldDomain Solve::domain() const {
  const auto [low, high] = pde::box_of(*problem_);
  return {low, high, std::ssize(problem_->symbols.fields), problem_->time()};
}

int64_t Solve::tokens() const {
  const bool follow_time = model_options_->windowed() && problem_->time() >= 0;
  return follow_time ? points_.window : 1;
}

Tensor Solve::windows_of(const Tensor& points) const {
  const auto at = points.to(runtime_.device, runtime_.dtype());
  if (tokens() == 1) return at.unsqueeze(1);
  auto windows = at.unsqueeze(1).repeat({1, tokens(), 1});
  windows.select(-1, problem_->time()) +=
      torch::arange(tokens(), windows.options()) * points_.window_step;
  return windows;
}

const pde::Condition& Solve::first_on_face(
    const pde::Condition& condition) const {
  for (const auto* other : learned_conditions()) {
    if (other->shares_face_with(condition)) return *other;
  }
  return condition;
}

bool Solve::has_own_points(const pde::Face& face) const {
  return &first_on_face(*face.condition) == face.condition;
}

pde::Face Solve::face_of(const pde::Condition& condition, int64_t round) const {
  auto box = pde::box_of(*problem_);
  const auto variable = static_cast<size_t>(condition.variable);
  box.low.erase(box.low.begin() + condition.variable);
  box.high.erase(box.high.begin() + condition.variable);
  const auto inside =
      pde::sample(box, points_.sampling, points_.per_axis, seed_,
                  "points/" + first_on_face(condition).text, round);
  const auto with = [&](double value) {
    const auto column =
        torch::full({inside.size(0), 1}, value, torch::kFloat64);
    return windows_of(torch::cat({inside.slice(1, 0, condition.variable),
                                  column, inside.slice(1, condition.variable)},
                                 1));
  };
  pde::Face face{&condition, is_initial(*problem_, condition),
                 with(condition.at)};
  if (condition.is_periodic()) {
    face.opposite = with(problem_->domain[variable].high);
  }
  return face;
}

bool Solve::is_hard(const pde::Condition& condition) const {
  return initial_conditions_.has(condition) || periodic_.has(condition);
}

std::vector<pde::Face> Solve::first_faces() const {
  std::vector<pde::Face> faces;
  for (const auto* condition : learned_conditions()) {
    const auto shared = std::ranges::find(faces, &first_on_face(*condition),
                                          &pde::Face::condition);
    faces.push_back(
        shared == faces.end()
            ? face_of(*condition, 0)
            : pde::Face{condition, shared->first_token, shared->windows});
  }
  return faces;
}

std::vector<const pde::Condition*> Solve::learned_conditions() const {
  std::vector<const pde::Condition*> learned;
  for (const auto& condition : problem_->conditions) {
    if (!is_hard(condition)) learned.push_back(&condition);
  }
  return learned;
}

const std::string& Solve::name_of(const pde::Condition& condition) const {
  const auto place = &condition - problem_->conditions.data();
  return condition_names_[static_cast<size_t>(place)];
}

std::vector<std::string> Solve::term_names() const {
  std::vector<std::string> names{"equation"};
  for (const auto* condition : learned_conditions()) {
    names.push_back(name_of(*condition));
  }
  return names;
}

std::vector<double> Solve::fixed_weights() const {
  std::vector<double> weights{loss_options_.equation};
  for (const auto* condition : learned_conditions()) {
    weights.push_back(is_initial(*problem_, *condition)
                          ? loss_options_.initial
                          : loss_options_.boundary);
  }
  return weights;
}

void Solve::prepare(int64_t seed, const Runtime& runtime) {
  for (const auto& remark : problem_->remarks) log::warn("{}", remark);
  runtime_ = runtime;
  seed_ = seed;
  residuals_ = pde::Residuals(*problem_, derivatives_, runtime);
  const auto box = pde::box_of(*problem_);
  windows_ = windows_of(pde::sample(box, points_.sampling, points_.per_axis,
                                    seed, "points/domain"));
  validation_ = windows_of(pde::cell_centres(box, points_.validation_per_axis));
  faces_ = first_faces();
  expect_finite_formulas();
  expect_exact_solution();
  fixed_weights_ =
      torch::tensor(fixed_weights(), torch::kFloat64).to(runtime.options());
  weights_ = fixed_weights_.clone();
  if (loss_options_.causality == 0) return;
  counts_ = torch::ones({loss_options_.slabs}, runtime.options());
  slab_of_ =
      torch::empty({windows_.size(0)}, runtime.options().dtype(torch::kInt64));
  find_slabs();
}

std::shared_ptr<torch::nn::Module> Solve::make_model() const {
  auto model = initial_conditions_.build_into(
      periodic_.embed(model_options_->make(periodic_.seen(domain()))));
  if (loss_options_.balance == pde::Balance::kUncertainty) {
    model->register_parameter(kLogVariances,
                              torch::zeros({std::ssize(term_names())}));
  }
  return model;
}

void Solve::initialise(torch::nn::Module& model, int64_t seed) const {
  as_field_net(model).initialise(seed);
  if (loss_options_.balance != pde::Balance::kUncertainty) return;
  // Weights are 1 / variance: those of the configuration at the beginning.
  const torch::NoGradGuard no_grad;
  model.named_parameters()[kLogVariances].copy_(
      -torch::tensor(fixed_weights(), torch::kFloat64).log());
}

int64_t Solve::size(data::Split split) const {
  return split == data::Split::kTrain ? windows_.size(0) : validation_.size(0);
}

std::vector<Tensor> Solve::in_order_of_time(
    std::vector<Tensor> residuals,
    const std::optional<Tensor>& positions) const {
  if (!slab_of_.defined()) return residuals;
  const auto roots = counts_.sqrt().index_select(
      0, positions ? slab_of_.index_select(0, *positions) : slab_of_);
  for (auto& residual : residuals) residual = residual * roots.unsqueeze(1);
  return residuals;
}

train::Loss Solve::loss(torch::nn::Module& module, data::Split split,
                        const Tensor& positions) {
  auto& model = as_field_net(module);
  const bool training = split == data::Split::kTrain;
  const auto& points = training ? windows_ : validation_;
  std::optional<Tensor> where;  // nowhere in particular: all of them
  if (positions.size(0) < points.size(0)) {
    where = positions.to(runtime_.device);
  }
  const auto left = residuals_.everywhere(
      model, where ? points.index_select(0, *where) : points, faces_);
  std::vector<std::vector<Tensor>> residuals{
      training ? in_order_of_time(left.equations, where) : left.equations};
  residuals.insert(residuals.end(), left.faces.begin(), left.faces.end());
  const auto terms = mean_squares_(residuals);
  train::Loss loss;
  auto weights = training ? weights_ : fixed_weights_;
  if (training && loss_options_.balance == pde::Balance::kUncertainty) {
    const auto logs =
        module.named_parameters()[kLogVariances].clamp_min(kLeastLogVariance);
    weights = (-logs).exp();
    loss.total = (weights * terms + logs).sum();
  } else {
    loss.total = (weights * terms).sum();
  }
  const auto names = term_names();
  const auto fixed = fixed_weights();
  const auto values = terms.detach().unbind();
  for (size_t n = 0; n < names.size(); ++n) {
    loss.terms.push_back({names[n], fixed[n], values[n]});
  }
  if (training && weights_change()) {
    for (size_t n = 0; n < names.size(); ++n) {
      loss.terms.push_back({fmt::format("{}{}", train::kWeightOf, names[n]), 0,
                            weights[static_cast<int64_t>(n)].detach()});
    }
  }
  return loss;
}

}  // namespace propagator::tasks
