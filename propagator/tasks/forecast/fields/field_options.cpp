#include "propagator/tasks/forecast/fields/field_options.h"

namespace propagator::tasks {

void FieldDataOptions::describe(config::Schema& s) {
  s.field("file", file,
          {.help = "fields of many cases: a file (.h5, .npz, .mat) of one of "
                   "the layouts that are known, or with an array of cases, "
                   "time, space and channels; or a folder of them",
           .role = config::Role::kInput,
           .file = true});
  s.field("simulator", simulator,
          {.help = "what computes data.file where it is not there; "
                   "`propagator list` shows simulators"});
  s.field("simulation", simulation,
          {.help = "keys of the simulator, each KEY=VALUE"});
  choices.describe(s);
  s.field("parameters", parameters,
          {.help = "numbers of each case that the model is told, by name; or "
                   "all, or none"});
  s.field("given", given,
          {.help = "frames that a forecast begins with", .min = 1, .max = 1e6});
  s.field("validation", validation,
          {.help = "share of the cases that training is watched with; files "
                   "with a split of their own keep it",
           .min = 0.001,
           .max = 0.9});
  s.field("test", test,
          {.help = "share of the cases that the result is measured on; the "
                   "others are trained on",
           .min = 0,
           .max = 0.9});
  s.field("test_file", test_file,
          {.help = "another file of such fields, all of which are to test on, "
                   "in place of such a share",
           .role = config::Role::kInput,
           .file = true});
  s.field("test_simulation", test_simulation,
          {.help = "keys of the simulator for that file, beside those of "
                   "data.simulation"});
  s.field("symmetry", symmetry,
          {.help = "of what the fields follow, if they are numbers without a "
                   "direction: mirrors along each axis, or those and swapped "
                   "axes (square). Training sees cases from all sides"});
  s.field("storage", storage,
          {.help = "memory: keep all fields on the device; stream: read each "
                   "batch from the file, while the one before trains; auto: "
                   "memory if half of it suffices",
           .role = config::Role::kCompute,
           .memory = true,
           .for_pages = "stream"});
}

std::vector<std::string> FieldDataOptions::told() const {
  const bool none = parameters.empty() || parameters.front() == kNoneOfThem ||
                    parameters.front() == kAllOfThem;
  return none ? std::vector<std::string>{} : parameters;
}

std::vector<std::string> FieldDataOptions::constants() const {
  const std::vector<std::string> none{data::kNoConstants};
  return choices.constants == none ? std::vector<std::string>{}
                                   : choices.constants;
}

data::SplitShares FieldDataOptions::shares() const {
  const double tested = test_file.empty() ? test : 0;
  return {1 - validation - tested, validation, tested};
}

void FieldLossOptions::describe(config::Schema& s) {
  s.field("frames", frames,
          {.help = "frames that are forecast from each training window; 0: "
                   "1, or with a block mask all later ones that cases have",
           .min = 0,
           .max = 1e6,
           .memory = true});
  s.field("inputs", inputs,
          {.help = "truth: each from true frames before it; own: from the "
                   "forecast ones, so that errors grow in training as they do "
                   "in a test"});
  s.field(
      "noise", noise,
      {.help = "deviation of noise on the frames that are seen in training, "
               "in units of each channel's: so that a forecast learns to "
               "come back from its own errors",
       .min = 0,
       .max = 10});
}

void FieldEvalOptions::describe(config::Schema& s) {
  s.field("batch", batch,
          {.help = "cases of one forward pass in a test",
           .min = 1,
           .memory = true});
  s.field("cases", cases,
          {.help = "how many cases of the split are tested; 0 tests all",
           .min = 0});
  s.field("steps", steps,
          {.help = "frames that are forecast in a test and by `predict`; 0: as "
                   "many as cases have after the given ones, or a block mask "
                   "is trained for",
           .min = 0,
           .max = 1e6});
  s.field("conserved", conserved,
          {.help = "channels whose sum over all nodes should stay what it is, "
                   "or none; left out: those that the simulator of the file "
                   "says",
           .later = true});
  s.field("classical", classical,
          {.help = "whether the simulator of the file forecasts too, on a grid "
                   "on which it takes no longer than the network",
           .later = true});
}

}  // namespace propagator::tasks
