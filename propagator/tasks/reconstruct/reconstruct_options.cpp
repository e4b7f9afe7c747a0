#include "propagator/tasks/reconstruct/reconstruct_options.h"

#include "propagator/core/error.h"
#include "propagator/tasks/loss_weight.h"

namespace propagator::tasks {

void SensorOptions::describe(config::Schema& s) {
  s.field(
      "file", file,
      {.help = "readings: a .csv, .h5, .npz or .mat with each variable, and "
               "some of the fields, by name; beside the configuration",
       .file = true});
  s.field("count", count,
          {.help = "sensors that are used; 0 uses all of a file, or draws 200 "
                   "from the truth",
           .min = 0,
           .max = 10000000,
           .memory = true});
  s.field("placement", placement,
          {.help = "where sensors stand whose readings are drawn from the "
                   "truth; given: at the places in sensors.positions"});
  s.field("positions", positions,
          {.help = "places of sensors: a .csv, .h5, .npz or .mat with each "
                   "variable by name; beside the configuration",
           .file = true,
           .later = true});
  s.field("fields", fields,
          {.help = "fields that are read; if there are none, all of them"});
  s.field("noise", noise,
          {.help = "standard deviation of noise added to readings of the "
                   "truth, in units of each field's own",
           .min = 0,
           .max = 10});
  s.field("held_out", held_out,
          {.help = "readings that validate, as a share of those that train: "
                   "taken from a file, drawn besides from a truth",
           .min = 0,
           .max = 0.9});
}

void SensorOptions::validate() const {
  const bool given = placement == Placement::kGiven;
  if (!file.empty() && noise > 0) {
    throw ConfigError("sensors.noise",
                      "readings of a file have their own noise",
                      "leave out sensors.noise or sensors.file");
  }
  if (!file.empty() && given) {
    throw ConfigError("sensors.placement",
                      "readings of a file stand where the file says",
                      "leave out sensors.file, to draw readings from a truth "
                      "at sensors.positions, or sensors.placement");
  }
  if (given && positions.empty()) {
    throw ConfigError("sensors.positions",
                      "sensors.placement is given, but no place is",
                      "name a .csv, .h5, .npz or .mat with each variable");
  }
  if (!given && !positions.empty()) {
    throw ConfigError("sensors.placement",
                      "places in a file are used where it is given",
                      "set sensors.placement=given, or leave out "
                      "sensors.positions");
  }
}

void TruthOptions::describe(config::Schema& s) {
  s.field("file", file,
          {.help = "the whole field on a grid, to draw sensors from and to "
                   "test against: an .h5, .npz or .mat with each variable's "
                   "places and each field; beside the configuration",
           .file = true});
  s.field("simulator", simulator,
          {.help = "what computes truth.file where it is not there yet; "
                   "`propagator list` shows simulators"});
  s.field("simulation", simulation,
          {.help = "keys of the simulator, as wake.reynolds=60"});
  s.field("snapshots", snapshots,
          {.help = "times of the grid at which the test is, evenly spread; 0 "
                   "tests at all of them",
           .min = 0,
           .role = config::Role::kEvaluation});
}

void FunctionOptions::describe(config::Schema& s) {
  s.field("width", width,
          {.help = "width of a hidden layer of each function in "
                   "problem.unknown, as k(x)",
           .min = 1,
           .max = 4096,
           .later = true});
  s.field("layers", layers,
          {.help = "hidden layers of each function in problem.unknown",
           .min = 1,
           .max = 64,
           .later = true});
}

void ReadingLossOptions::describe(config::Schema& s) {
  s.field("data", weight, loss_weight("weight of the readings"));
  s.field("readings", kind,
          {.help = "how readings count: mse; heteroscedastic, with a variance "
                   "that the network predicts at each point; or faithful, as "
                   "mse beside a variance from a network of its own"});
}

}  // namespace propagator::tasks
