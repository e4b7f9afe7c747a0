#include "propagator/tasks/solve/solve_options.h"

#include "propagator/tasks/loss_weight.h"

namespace propagator::tasks {

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
  s.field("sampling", sampling, {.help = "of domain and faces, at first"});
  s.field("per_axis", per_axis,
          {.help = "points along each variable", .min = 2, .max = 100000});
  s.field("window", window,
          {.help = "tokens that follow a point through time, for models "
                   "whose tokens see each other",
           .min = 1,
           .max = 64});
  s.field("window_step", window_step,
          {.help = "between two tokens, in units of time", .min = 0});
  s.field("validation_per_axis", validation_per_axis,
          {.help = "points along each variable", .min = 1});
  s.field("resample_every", resample_every,
          {.help = "draw new points; 0: never", .unit = "steps", .min = 0});
  s.field("adaptive", adaptive,
          {.help = "new points of the domain go where the residual is large"});
}

void SolveLossOptions::describe(config::Schema& s) {
  s.field("equation", equation,
          loss_weight("weight of the equations' residuals"));
  s.field("initial", initial, loss_weight("weight of conditions at a time"));
  s.field("boundary", boundary, loss_weight("weight of the other conditions"));
  s.field("balance", balance,
          {.help = "how weights change from these in training"});
  s.field("balance_every", balance_every,
          {.help = "for gradient_norm and ntk", .unit = "steps", .min = 1});
  s.field("balance_rate", balance_rate,
          {.help = "how far they go to the balanced ones each time",
           .min = 0,
           .max = 1});
  s.field("causality", causality,
          {.help = "points count exp(-this · mean squares at earlier times); "
                   "0: all alike",
           .min = 0});
  s.field("slabs", slabs,
          {.help = "of time, for that", .min = 2, .max = 10000});
}

void SolveEvalOptions::describe(config::Schema& s) {
  s.field("per_axis", per_axis,
          {.help = "test points along each variable", .min = 2});
  s.field("quantities", quantities,
          {.help = "fields and derivatives that predict writes; empty: the "
                   "fields"});
  s.field("classical", classical,
          {.help = "say what a classical method needs for the same error, and "
                   "use one where no exact solution is given"});
}

}  // namespace propagator::tasks
