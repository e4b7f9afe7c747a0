#include "propagator/cli/commands.h"
#include "propagator/cli/finish.h"

namespace propagator::cli {

void add_resume(CLI::App& app, Action& action) {
  struct Options {
    std::string run, from;
    bool json = false;
    Overrides overrides;
  };
  const auto o = std::make_shared<Options>();
  auto* verb = app.add_subcommand(
      "resume", "Go on with a run that was stopped or killed");
  verb->footer(
      "On the same machine the result has the same bits as a run that was "
      "never stopped.\n"
      "Example:\n  propagator resume runs/quick");
  verb->add_option("run", o->run, "The run's folder")->required();
  verb->add_option("--from", o->from,
                   "A checkpoint of it (default: the newest); later ones are "
                   "given up");
  verb->add_flag("--json", o->json, "Print the result as JSON");
  o->overrides.add_to(*verb, Overrides::Subject::kRun);
  verb->callback([o, &action] {
    action = [o] {
      auto run = train::RunDirectory::open(o->run);
      run.lock();
      auto document = run.read_config();
      o->overrides.apply_to_run(document, config::resume_may_change);
      run::Experiment experiment(document);
      o->overrides.limit_time_of(experiment);
      return resume_run(std::move(run), experiment, o->from, o->json);
    };
  });
}

}  // namespace propagator::cli
