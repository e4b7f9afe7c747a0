#include "propagator/tasks/solve/solve.h"

#include "propagator/core/error.h"
#include "propagator/core/log.h"
#include "propagator/pde/residual/problem_box.h"
#include "propagator/pde/residual/problem_checks.h"
#include "propagator/tasks/solve/net_in_units.h"
#include "propagator/tasks/solve/solve_checks.h"

namespace propagator::tasks {

using models::as_field_net;
using torch::Tensor;

Solve::Solve(std::unique_ptr<models::FieldNetOptions> model, Recipe recipe,
             std::map<std::string, std::string> defaults)
    : recipe_(recipe),
      defaults_(std::move(defaults)),
      model_options_(std::move(model)) {}

void Solve::describe(config::Schema& s) {
  using enum config::Role;
  s.field("recipe", recipe_,
          {.help = "which defaults the other keys have: precise, a small "
                   "network in float64 by Broyden's method within "
                   "train.budget; network, a transformer by L-BFGS, also where "
                   "a configuration chooses network, optimiser, precision or "
                   "steps by itself",
           .role = kLabel,
           .later = true});
  s.section("problem", problem_options_);
  s.section("points", point_options_);
  s.section("slabs", slab_options_, kTraining);
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
                   "where the network stays smooth; faces, those that give a "
                   "field on a face of the domain too; all, as yes, but also "
                   "where the network then has a corner; no, all are terms of "
                   "the loss",
           .role = kModel,
           .formerly = "built_in"});
  s.field("scale", scaled_,
          {.help = "a problem in units that make its numbers far from 1 is "
                   "scaled inside, and answers in its own units",
           .role = kModel,
           .later = true});
  s.field("corners", has_corners_,
          {.help = "where the domain has corners that point inwards, fields "
                   "have terms r^a around them, as solutions have",
           .role = kModel,
           .later = true});
  s.section("eval", eval_options_, kEvaluation);
}

std::map<std::string, std::string> Solve::defaults() const { return defaults_; }

void Solve::validate() {
  try {
    problem_ = pde::Problem::parse(problem_options_.with_tables(), posed());
  } catch (const pde::ProblemError& error) {
    throw ConfigError("problem." + error.list(), error.what(), error.hint(),
                      error.item());
  }
  validate_own();
  expect_countable(*problem_, "points.per_axis", point_options_.per_axis);
  expect_countable(*problem_, "points.validation_per_axis",
                   point_options_.validation_per_axis);
  expect_countable(*problem_, "eval.per_axis", eval_options_.per_axis);
  expect_some_inside(*problem_, "points.validation_per_axis",
                     point_options_.validation_per_axis);
  expect_some_inside(*problem_, "eval.per_axis", eval_options_.per_axis);
  conditions_ = SolveConditions(*problem_, hard_constraints_,
                                /*values_too=*/!model_options_->is_fitted());
  const bool alone = posed() == pde::Posed::kByConditions;
  scale_ =
      alone && scaled_ ? pde::ProblemScale(*problem_) : pde::ProblemScale();
  corners_ =
      alone && has_corners_ ? pde::CornerTerms(*problem_) : pde::CornerTerms();
  reference_ = SolveReference(*problem_, eval_options_, freedoms());
  if (model_options_->needs_readings() &&
      posed() == pde::Posed::kByConditions) {
    throw ConfigError(
        "model.name",
        fmt::format("{} answers from readings, which solve has none of",
                    model_name_),
        "choose another model, or the task reconstruct");
  }
  model_options_->validate(conditions_.seen(domain()));
  if (point_options_.resample_every > 0 && !point_options_.adaptive &&
      point_options_.sampling == pde::Sampling::kGrid) {
    throw ConfigError("points.resample_every",
                      "a grid that is resampled is the same grid",
                      "set points.resample_every=0, points.sampling=sobol, or "
                      "points.adaptive=yes");
  }
  loss_ = SolveLoss(*problem_, conditions_, loss_options_, own_terms());
  slab_options_.validate();
  slab_time_.reset();
  if (slab_options_.most > 1 && why_no_slabs().empty()) {
    slab_time_ = slabbed_time(*problem_).time;
  }
  expect_smooth_enough(*problem_, model_options_->smoothness(),
                       problem_->all_derivatives(), "the problem needs");
  quantities();
}

std::vector<config::UnusedOption> Solve::unused_options() const {
  std::vector<config::UnusedOption> unused;
  if (windows().tokens == 1) {
    unused.push_back({"derivatives",
                      "no token sees another, so that published and honest "
                      "ones are the same"});
  }
  if (posed() != pde::Posed::kByConditions) {
    unused.push_back({"scale", "readings have a scale of their own"});
    unused.push_back({"corners", "what readings are fitted to has none"});
  }
  if (const auto why = why_no_slabs(); !why.empty()) {
    unused.push_back({"slabs.", why});
  }
  if (model_options_->is_fitted()) {
    for (const char* key : {"train.epochs", "train.max_steps", "train.batch",
                            "train.clip", "schedule.", "optimizer.", "lbfgs.",
                            "broyden.", "levenberg_marquardt."}) {
      unused.push_back(
          {key, fmt::format("{} is fitted, not trained", model_name_)});
    }
  }
  const auto& learned = conditions_.learned();
  const auto is_initial = [&](const pde::Condition* condition) {
    return conditions_.is_initial(*condition);
  };
  if (std::ranges::none_of(learned, is_initial)) {
    unused.push_back(
        {"loss.initial", "no initial condition is a term of the loss"});
  }
  if (std::ranges::all_of(learned, is_initial)) {
    unused.push_back(
        {"loss.boundary", "no boundary condition is a term of the loss"});
  }
  return unused;
}

std::vector<std::string> Solve::foreign_keys() const {
  if (!model_options_->is_fitted()) return {};
  return {"train.",  "schedule.", "optimizer.",
          "lbfgs.",  "broyden.",  "levenberg_marquardt.",
          "points.", "loss."};
}

std::vector<std::string> Solve::inspect() {
  prepare(0, {});
  auto lines = config::items_of(problem_->describe());
  if (!scale_.empty()) lines.push_back(scale_text());
  for (const auto& corner : corners_.texts()) {
    lines.push_back(fmt::format("fields have terms {}", corner));
  }
  const auto& windows = points_.of(data::Split::kTrain);
  lines.push_back(fmt::format("{} points in the domain, {} tokens each",
                              windows.size(0), windows.size(1)));
  for (const auto& condition : problem_->conditions) {
    if (!conditions_.is_hard(condition)) continue;
    lines.push_back(
        fmt::format("hard constraint: {}", conditions_.name_of(condition)));
  }
  for (const auto& face : points_.faces()) {
    lines.push_back(fmt::format("{} points: {}", face.windows.size(0),
                                conditions_.name_of(*face.condition)));
  }
  if (problem_->exact.empty()) return lines;
  lines.push_back(
      fmt::format("the exact solution has a residual of {:.1e} at most",
                  pde::ExactSolution(*problem_).residual_of_equations()));
  return lines;
}

SolveReference::Freedoms Solve::freedoms() const {
  SolveReference::Freedoms all;
  for (int64_t f = 0; f < std::ssize(problem_->symbols.fields); ++f) {
    all.push_back(problem_->freedom_of(f));
  }
  return all;
}

models::FieldDomain Solve::domain() const {
  const auto [low, high] = pde::box_of(*problem_);
  models::FieldDomain domain{low, high, outputs(), problem_->time()};
  domain.variable_names = problem_->symbols.variables;
  domain.field_names = problem_->symbols.fields;
  return domain;
}

TimeWindows Solve::windows() const {
  const bool follow_time = model_options_->windowed() && problem_->time() >= 0;
  return {follow_time ? point_options_.window : 1, problem_->time(),
          point_options_.window_step};
}

std::string Solve::why_no_slabs() const {
  if (posed() != pde::Posed::kByConditions) {
    return "readings are of all times at once";
  }
  if (model_options_->is_fitted()) {
    return fmt::format("{} is fitted, not trained", model_name_);
  }
  if (windows().tokens > 1) return "tokens of a window may be in two slabs";
  if (loss_options_.balance == pde::Balance::kUncertainty) {
    return "weights are learned with the network, of all times at once";
  }
  return slabbed_time(*problem_).why_not;
}

void Solve::prepare(int64_t seed, const Runtime& runtime) {
  for (const auto& remark : problem_->remarks) log::warn("{}", remark);
  runtime_ = runtime;
  loss_.prepare(derivatives_, seed, runtime, scale_);
  residuals_ = pde::Residuals(*problem_, derivatives_, runtime);
  points_ = SolvePoints(*problem_, conditions_, point_options_, windows(),
                        loss_.slabs(), seed, runtime);
  seed_ = seed;
  if (slab_time_) {
    slabs_ = SlabPlan(slab_options_, slab_time_->interval);
    if (!slabs_.is_whole()) points_.move_to(slabs_.slab());
  }
  expect_finite_formulas(*problem_, points_, reference_.points());
  expect_exact_solution(*problem_);
}

std::shared_ptr<torch::nn::Module> Solve::make_model() const {
  const auto make = [&] {
    return corners_.add_to(
        make_in_units(*model_options_, conditions_.seen(domain()), scale_),
        scale_.fields());
  };
  if (!slab_time_) return conditions_.build_into(make());
  std::vector<std::shared_ptr<models::FieldNet>> networks;
  for (int64_t n = 0; n < slab_options_.most; ++n) {
    networks.push_back(make());
  }
  const auto chain = conditions_.build_into(*slab_time_, std::move(networks));
  chain->set_end(SlabPlan(slab_options_, slab_time_->interval).slab().high);
  return chain;
}

void Solve::initialise(torch::nn::Module& model, int64_t seed) const {
  as_field_net(model).initialise(seed);
}

std::vector<std::string> Solve::former_parameters() const {
  return {SolveLoss::kLogVariances};
}

std::string Solve::scale_text() const {
  return fmt::format("scaled inside: {}", scale_.text(problem_->symbols));
}

void Solve::say_how() const {
  if (!scale_.empty()) log::info("{}", scale_text());
  if (recipe_ != Recipe::kPrecise) return;
  const auto all = std::ssize(problem_->conditions);
  log::info(
      "recipe precise: a small network in float64, so that its loss can fall "
      "far; {} of {} conditions hold by its form, {} are terms of the loss; "
      "{} points{}",
      all - std::ssize(conditions_.learned()), all,
      std::ssize(conditions_.learned()), size(data::Split::kTrain),
      slab_time_ ? fmt::format("; time begins as {} slabs, which are cut where "
                               "their loss does not fall",
                               slab_options_.first)
                 : "");
}

void Solve::begin_step(torch::nn::Module& module, int64_t step) {
  if (step == 0) say_how();
  auto& model = as_field_net(module);
  points_.begin_step(model, loss_.residuals(), step);
  loss_.begin_step(model, points_, step);
}

bool Solve::redraw(torch::nn::Module& model, int64_t step) {
  return points_.redraw(as_field_net(model), loss_.residuals(), step);
}

bool Solve::ends_stage(const train::Standing& standing) {
  if (slabs_.empty()) return false;
  const auto before = slabs_.slab();
  next_stage_ = slabs_.after(standing);
  if (next_stage_ == SlabPlan::Next::kGoOn) return false;
  const auto& name =
      problem_->symbols.variables[static_cast<size_t>(problem_->time())];
  const auto& [low, high] = slabs_.slab();
  if (next_stage_ == SlabPlan::Next::kCut) {
    log::info(
        "{} in [{:g}, {:g}] is not solved by one network: its loss fell to "
        "{:.1e} of what it was. The next begins with [{:g}, {:g}]",
        name, before.low, before.high, standing.best / standing.first, low,
        high);
  } else {
    log::info("{} in [{:g}, {:g}] is done; slab {} is [{:g}, {:g}]", name,
              before.low, before.high, slabs_.number(), low, high);
  }
  return true;
}

bool Solve::begin_stage(torch::nn::Module& model) {
  auto& chain = dynamic_cast<pde::SlabChain&>(model);
  const auto& slab = slabs_.slab();
  const bool anew = next_stage_ == SlabPlan::Next::kCut;
  if (anew) {
    chain.restart(slab.high, seed_ + slabs_.attempts());
  } else {
    if (slabs_.number() == 2) loss_.leave_out_initial();
    chain.finish(slab.high);
  }
  points_.move_to(slab);
  return anew;
}

train::NamedTensors Solve::state() const {
  auto state = points_.state();
  state.merge(loss_.state());
  state.merge(slabs_.state());
  return state;
}

void Solve::restore(const train::NamedTensors& saved) {
  if (!slabs_.empty()) {
    slabs_.restore(saved);
    if (slabs_.number() > 1) loss_.leave_out_initial();
    if (!slabs_.is_whole()) points_.move_to(slabs_.slab());
  }
  points_.restore(saved);
  loss_.restore(saved);
}

int64_t Solve::size(data::Split split) const {
  return points_.of(split).size(0);
}

train::Loss Solve::loss(torch::nn::Module& model, data::Split split,
                        const Tensor& positions) {
  return loss_.at(model, points_, split, positions);
}

train::LeastSquares Solve::least_squares(torch::nn::Module& model,
                                         const Tensor* flat) {
  if (windows().tokens > 1 || derivatives_ != pde::Derivatives::kHonest) {
    throw ConfigError(
        "optimizer.kind",
        "levenberg_marquardt needs a network that takes each point by itself, "
        "with honest derivatives",
        "set model.name=pinn or siren, and derivatives=honest");
  }
  return loss_.least_squares(as_field_net(model), points_, flat);
}

void expect_no_observations(const config::Document& document) {
  for (const auto& [key, entry] : document.entries()) {
    if (key != "observations" && !key.starts_with("observations.")) continue;
    throw ConfigError(key, "readings are given in the section sensors",
                      "write sensors: {file: readings.csv}, with task: "
                      "reconstruct or without a task");
  }
}

namespace {

// Those that need no readings.
std::map<std::string, std::string> solvers() {
  auto helps = helps_of(models::field_nets());
  std::erase_if(helps, [](const auto& item) {
    return models::field_nets().at(item.first).options()->needs_readings();
  });
  return helps;
}

}  // namespace

TaskKind solve_kind() {
  return {.help = "given only a PDE and its conditions, what is the solution?",
          .make =
              [](const config::Document& document) {
                if (has_section(document, "sensors")) {
                  throw ConfigError(
                      "task", "solve takes no readings, as sensors has them",
                      "set task: reconstruct, which does, or leave task out");
                }
                return make_solver<Solve>(document, recipe_of(document),
                                          kSolver);
              },
          .models = solvers(),
          .files =
              "INPUT holds the variables by name, one number for each point; "
              "OUTPUT gets them\nand the quantities of eval.quantities.\n  "
              "propagator predict runs/wave --input points.csv --output u.csv",
          .claims =
              [](const config::Document& document) {
                return has_section(document, "problem");
              }};
}

}  // namespace propagator::tasks
