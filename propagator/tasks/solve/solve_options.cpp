#include "propagator/tasks/solve/solve_options.h"

#include <fmt/format.h>

#include "propagator/core/error.h"
#include "propagator/data/named_table.h"
#include "propagator/tasks/loss_weight.h"

namespace propagator::tasks {

void ProblemOptions::describe(config::Schema& s) {
  s.field("domain", text.domain,
          {.help = "interval of each variable, as x in [0, 1]"});
  s.field("time", text.time,
          {.help = "the variable that is time, if it is not the one named t or "
                   "time",
           .later = true});
  s.field(
      "shapes", text.shapes,
      {.help = "shapes in the variables of space, as plate = disk(0, 0, 1); "
               "disk, ball, box, polygon, and below(f), where a formula is "
               "< 0",
       .later = true});
  s.field("inside", text.inside,
          {.help = "what of the shapes the domain is, as plate - hole: + "
                   "unites, - takes away, & intersects",
           .later = true});
  s.field("fields", text.fields,
          {.help = "names of what is solved for; complex psi is two fields, "
                   "psi_re and psi_im"});
  s.field("parameters", text.parameters,
          {.help = "names for numbers in the formulas, as c = 2"});
  s.field("coefficients", text.coefficients,
          {.help = "names for formulas of variables and parameters, as "
                   "k = 1 + 0.5*sin(2*pi*x)",
           .later = true});
  s.field("tables", tables,
          {.help = "files (.csv, .h5, .npz, .mat) of functions by numbers on a "
                   "grid, with columns or arrays x, y, k for k(x, y), which "
                   "formulas may name",
           .file = true,
           .later = true});
  s.field("unknown", text.unknown,
          {.help = "what is to be found from readings: parameters of the "
                   "equations, within bounds, as c in [0.1, 10], or each with "
                   "where the search begins, as c = 1 (one that is among the "
                   "parameters too has its true value there), and functions, "
                   "as k(x) or k(x) in [0.1, 10], with a true one in exact",
           .later = true});
  s.field("equations", text.equations,
          {.help = "the equations, as u_tt = c^2*u_xx"});
  s.field("conditions", text.conditions,
          {.help = "initial and boundary conditions, as at t=0: u = sin(x); "
                   "on x=0: u = 0; periodic x"});
  s.field(
      "exact", text.exact,
      {.help = "the exact solution, if it is known, as u = sin(x)*exp(-t)"});
}

pde::ProblemText ProblemOptions::with_tables() const {
  auto all = text;
  for (const auto& file : tables) {
    all.tables.push_back({file, data::read_whole_table(file)});
  }
  return all;
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
  s.field(
      "validation", validation,
      {.help = "where they are: centres of cells, or a Sobol sequence of as "
               "many points, which also sees what is thinner than a cell",
       .later = true});
  s.field("resample_every", resample_every,
          {.help = "steps after which the training points are resampled; 0 "
                   "keeps the first ones",
           .unit = "steps",
           .min = 0});
  s.field("adaptive", adaptive,
          {.help = "resampled points of the domain lie where the residual is "
                   "large"});
  s.field("candidates", candidates,
          {.help = "uniform points that each resampled one is drawn from where "
                   "points.adaptive=yes",
           .min = 1,
           .max = 1000,
           .later = true});
}

void SlabOptions::describe(config::Schema& s) {
  s.field("most", most,
          {.help = "most slabs of time that a problem is solved in, one after "
                   "the other, with a network of its own for each; 1: its "
                   "whole time by one network",
           .min = 1,
           .max = 1000,
           .role = config::Role::kModel,
           .later = true});
  s.field("first", first,
          {.help = "slabs that one begins with; a slab whose loss does not "
                   "fall is cut in half, and the rest of time like it",
           .min = 1,
           .role = config::Role::kModel,
           .later = true});
  s.field("tolerance", tolerance,
          {.help = "how far the loss of a slab must fall, of what it was "
                   "before training",
           .min = 0,
           .later = true});
  s.field("trial", trial,
          {.help = "share of the training after which a slab whose loss has "
                   "not fallen so far is cut",
           .min = 0,
           .max = 1,
           .later = true});
}

void SlabOptions::validate() const {
  if (first <= most) return;
  throw ConfigError("slabs.first",
                    fmt::format("begins with {} slabs, where slabs.most allows "
                                "{}",
                                first, most),
                    "set slabs.most too");
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

}  // namespace propagator::tasks
