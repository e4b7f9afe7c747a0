#include "propagator/tasks/solve.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include "propagator/core/error.h"

namespace propagator::tasks {
namespace {

using autodiff::Derivative;
using autodiff::Jet;
using models::as_field_net;
using torch::Tensor;

// Of a loss term; more would overflow in float32.
constexpr double kLargestWeight = 1e30;

// An exact solution is one whose residual is this small beside its terms, at
// so many points along each variable.
constexpr double kExactlySolved = 1e-9;
constexpr int64_t kExactPerAxis = 16;

// "at t=0: u", for a line of progress.
std::string short_name(const autodiff::Problem& problem,
                       const autodiff::Condition& condition) {
  const auto variable = static_cast<size_t>(condition.variable);
  const auto& name = problem.symbols.variables[variable];
  if (condition.kind == autodiff::Condition::Kind::kPeriodic) {
    return fmt::format("periodic {}", name);
  }
  const auto after = condition.text.substr(condition.text.find(':') + 1);
  auto left = after.substr(0, after.find('='));
  left.erase(left.find_last_not_of(' ') + 1);
  return fmt::format("{} {}={:g}:{}",
                     condition.variable == problem.time() ? "at" : "on", name,
                     condition.at, left);
}

}  // namespace

void ProblemOptions::describe(config::Schema& s) {
  s.field("domain", text.domain, {.help = "x in [0, 1], for each variable"});
  s.field("fields", text.fields, {.help = "names of what is solved for"});
  s.field("parameters", text.parameters, {.help = "c = 2"});
  s.field("equations", text.equations, {.help = "u_tt = c^2*u_xx"});
  s.field("conditions", text.conditions,
          {.help = "at t=0: u = sin(x); on x=0: u = 0; periodic x"});
  s.field("exact", text.exact, {.help = "u = ..., if it is known"});
}

void PointOptions::describe(config::Schema& s) {
  s.field("sampling", sampling, {.help = "of domain and faces"});
  s.field("per_axis", per_axis,
          {.help = "points along each variable", .min = 2, .max = 100000});
  s.field("window", window,
          {.help = "tokens that follow a point through time, for models "
                   "whose tokens see each other",
           .min = 1,
           .max = 1024});
  s.field("window_step", window_step,
          {.help = "between two tokens, in units of time", .min = 0});
  s.field("validation_per_axis", validation_per_axis,
          {.help = "points along each variable", .min = 1});
}

void SolveLossOptions::describe(config::Schema& s) {
  s.field("equation", equation,
          {.help = "weight of the equations' residuals",
           .min = 0,
           .max = kLargestWeight});
  s.field("initial", initial,
          {.help = "weight of conditions at a time",
           .min = 0,
           .max = kLargestWeight});
  s.field("boundary", boundary,
          {.help = "weight of the other conditions",
           .min = 0,
           .max = kLargestWeight});
}

void SolveEvalOptions::describe(config::Schema& s) {
  s.field("per_axis", per_axis,
          {.help = "test points along each variable", .min = 2});
  s.field("quantities", quantities,
          {.help = "fields and derivatives that predict writes; empty: the "
                   "fields"});
}

Solve::Solve(std::unique_ptr<models::FieldNetOptions> model)
    : model_options_(std::move(model)) {}

void Solve::describe(config::Schema& s) {
  s.section("problem", problem_options_);
  s.section("points", points_);
  s.field("model.name", model_name_, {.help = "`propagator list` shows them"});
  s.section("model", *model_options_);
  s.section("loss", loss_options_);
  s.section("eval", eval_options_);
}

std::map<std::string, std::string> Solve::defaults() const {
  return {{"optimizer.kind", "lbfgs"}, {"train.batch", "0"},
          {"train.epochs", "120"},     {"train.validate_every", "10"},
          {"train.log_every", "5"},    {"train.checkpoint_every", "50"}};
}

void Solve::validate() {
  try {
    problem_ = autodiff::Problem::parse(problem_options_.text);
  } catch (const autodiff::ProblemError& error) {
    throw ConfigError("problem." + error.list(), error.what(), error.hint());
  }
  model_options_->validate(domain());
  const int64_t smooth = model_options_->smoothness();
  for (const auto& equation : problem_->equations) {
    for (const auto& derivative : equation.derivatives()) {
      if (smooth >= 0 && derivative.order() > smooth) {
        throw ConfigError(
            "model.name",
            fmt::format("this model has derivatives to order {} only, and the "
                        "equations need order {}",
                        smooth, derivative.order()),
            "choose another model, or a spline of a higher degree");
      }
    }
  }
}

std::vector<std::string> Solve::inspect() {
  prepare(0, {});
  std::vector<std::string> lines;
  config::parse(problem_->describe(), {}, lines);
  lines.push_back(fmt::format("{} points in the domain, {} tokens each",
                              equations_.windows.size(0),
                              equations_.windows.size(1)));
  for (const auto& term : conditions_) {
    lines.push_back(
        fmt::format("{} points: {}", term.windows.size(0), term.name));
  }
  if (problem_->exact.empty()) return lines;
  const double violation = exact_residual();
  lines.push_back(fmt::format(
      "the exact solution leaves a residual of {:.1e} at most", violation));
  if (!(violation < kExactlySolved)) {
    throw ConfigError("problem.exact",
                      fmt::format("it does not solve the equations: the "
                                  "residual is {:.3g}, relative to its terms",
                                  violation));
  }
  return lines;
}

double Solve::exact_residual() const {
  const auto points = data::cell_centres(box(), kExactPerAxis);
  const auto& plan = equations_.motion.plan;
  const auto moving =
      Jet::moving(points, plan.directions(points.options()), plan.layout());
  const auto fields = problem_->exact_fields(moving);
  const auto environment = plan.environment(points, fields);
  double largest = 0;
  for (const auto& equation : problem_->equations) {
    // In units of the largest derivative or field that it names.
    double scale = 1e-300;
    for (const auto& derivative : equation.derivatives()) {
      scale = std::max(
          scale,
          plan.derivative(fields, derivative).abs().max().item<double>());
    }
    const auto residual = equation.evaluate(environment).value();
    largest = std::max(largest, residual.abs().max().item<double>() / scale);
  }
  return largest;
}

models::FieldDomain Solve::domain() const {
  models::FieldDomain domain;
  for (const auto& [low, high] : problem_->domain) {
    domain.low.push_back(low);
    domain.high.push_back(high);
  }
  domain.fields = static_cast<int64_t>(problem_->symbols.fields.size());
  domain.time = problem_->time();
  return domain;
}

data::Box Solve::box() const {
  const auto d = domain();
  return {d.low, d.high};
}

Tensor Solve::windows_of(const Tensor& points) const {
  const auto at = points.to(runtime_.device, runtime_.dtype());
  const int64_t time = problem_->time();
  if (!model_options_->windowed() || time < 0) return at.unsqueeze(1);
  auto windows = at.unsqueeze(1).repeat({1, points_.window, 1});
  windows.select(-1, time) +=
      torch::arange(points_.window, windows.options()) * points_.window_step;
  return windows;
}

Solve::Term Solve::condition_term(const autodiff::Condition& condition,
                                  int64_t seed) const {
  auto face = box();
  const auto variable = static_cast<size_t>(condition.variable);
  face.low.erase(face.low.begin() + condition.variable);
  face.high.erase(face.high.begin() + condition.variable);
  const auto inside = data::sample(face, points_.sampling, points_.per_axis,
                                   seed, "points/" + condition.text);
  const auto with = [&](double value) {
    const auto column =
        torch::full({inside.size(0), 1}, value, torch::kFloat64);
    return torch::cat({inside.slice(1, 0, condition.variable), column,
                       inside.slice(1, condition.variable)},
                      1);
  };
  const bool periodic = condition.kind == autodiff::Condition::Kind::kPeriodic;
  const bool at_time = condition.variable == problem_->time();
  Term term{.name = short_name(*problem_, condition),
            .weight = at_time ? loss_options_.initial : loss_options_.boundary,
            .condition = &condition,
            .first_token = at_time};
  term.windows = windows_of(with(condition.at));
  if (periodic) {
    term.opposite = windows_of(with(problem_->domain[variable].high));
  }
  term.motion =
      motion_for(periodic ? std::set<Derivative>(condition.matched.begin(),
                                                 condition.matched.end())
                          : condition.residual.derivatives());
  return term;
}

void Solve::prepare(int64_t seed, const Runtime& runtime) {
  runtime_ = runtime;
  equations_ = {.name = "equation", .weight = loss_options_.equation};
  equations_.windows = windows_of(data::sample(
      box(), points_.sampling, points_.per_axis, seed, "points/domain"));
  equations_.motion = motion_for(problem_->derivatives());
  validation_ =
      windows_of(data::cell_centres(box(), points_.validation_per_axis));
  conditions_.clear();
  for (const auto& condition : problem_->conditions) {
    conditions_.push_back(condition_term(condition, seed));
  }
}

std::shared_ptr<torch::nn::Module> Solve::make_model() const {
  return model_options_->make(domain());
}

void Solve::initialise(torch::nn::Module& model, int64_t seed) const {
  as_field_net(model).initialise(seed);
}

int64_t Solve::size(data::Split split) const {
  return split == data::Split::kTrain ? equations_.windows.size(0)
                                      : validation_.size(0);
}

Solve::Motion Solve::motion_for(const std::set<Derivative>& derivatives) const {
  const autodiff::DerivativePlan plan(
      derivatives, static_cast<int64_t>(problem_->domain.size()));
  return {plan, plan.directions(runtime_.options())};
}

Jet Solve::Motion::fields_at(models::FieldNet& model,
                             const Tensor& windows) const {
  return model.forward(Jet::moving(windows, directions, plan.layout()));
}

std::vector<Tensor> Solve::equation_residuals(const Jet& fields,
                                              const Tensor& windows) const {
  const auto environment = equations_.motion.plan.environment(windows, fields);
  std::vector<Tensor> all;
  for (const auto& equation : problem_->equations) {
    all.push_back(equation.evaluate(environment).value());
  }
  return all;
}

std::vector<Tensor> Solve::residuals(models::FieldNet& model, const Term& term,
                                     const Tensor& windows) const {
  const auto& plan = term.motion.plan;
  const auto fields = term.motion.fields_at(model, windows);
  if (term.condition == nullptr) return equation_residuals(fields, windows);
  if (term.condition->kind == autodiff::Condition::Kind::kPeriodic) {
    const auto others = term.motion.fields_at(model, term.opposite);
    std::vector<Tensor> all;
    for (const auto& derivative : term.condition->matched) {
      all.push_back(plan.derivative(fields, derivative) -
                    plan.derivative(others, derivative));
    }
    return all;
  }
  const auto residual =
      term.condition->residual.evaluate(plan.environment(windows, fields))
          .value();
  return {term.first_token ? residual.narrow(1, 0, 1) : residual};
}

train::Loss Solve::loss(torch::nn::Module& module, data::Split split,
                        const Tensor& positions) {
  auto& model = as_field_net(module);
  const auto& windows =
      split == data::Split::kTrain ? equations_.windows : validation_;
  train::Loss loss;
  const auto add = [&](const Term& term, const Tensor& where) {
    Tensor sum;
    for (const auto& residual : residuals(model, term, where)) {
      const auto square = residual.square().mean();
      sum = sum.defined() ? sum + square : square;
    }
    const auto weighted = sum * term.weight;
    loss.total = loss.total.defined() ? loss.total + weighted : weighted;
    loss.terms.push_back({term.name, term.weight, sum.detach()});
  };
  add(equations_, windows.index_select(0, positions.to(windows.device())));
  for (const auto& term : conditions_) add(term, term.windows);
  return loss;
}

}  // namespace propagator::tasks
