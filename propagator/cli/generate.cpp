#include "propagator/run/generate.h"

#include "propagator/cli/commands.h"
#include "propagator/core/error.h"
#include "propagator/core/plain_text.h"
#include "propagator/run/ensemble.h"

namespace propagator::cli {
namespace {

struct GenerateCommand {
  std::string run, from, adapter, output;
  std::vector<std::string> ensemble;
  run::GenerateOptions table;
  int64_t cases = 1;
  std::optional<int64_t> count;
  tasks::TextRequest text;
  bool force = false, json = false;
  Overrides overrides;
};

void add_trajectory_options(CLI::App& verb, GenerateCommand& o) {
  constexpr const char* kGroup = "Trajectories";
  verb.add_option("--cases", o.cases,
                  "Test cases to draw trajectories of, without --given "
                  "(default: 1)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->group(kGroup);
  verb.add_option("--ensemble", o.ensemble,
                  "Runs of other seeds that draw beside this one")
      ->group(kGroup);
}

void add_text_options(CLI::App& verb, GenerateCommand& o) {
  constexpr const char* kGroup = "Text";
  const auto add = [&](const char* name, auto& value, const char* help) {
    return verb.add_option(name, value, help)->group(kGroup);
  };
  add("-p,--prompt", o.text.prompt, "What the text follows");
  add("--length", o.text.length, "Tokens at most (default: as fits)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  add("--temperature", o.text.choice.temperature,
      "Draw tokens, from softmax(logits / temperature); without it the most "
      "probable is taken");
  add("--top-k", o.text.choice.top_k, "Draw from so many most probable tokens");
  add("--top-p", o.text.choice.top_p,
      "Draw from the fewest tokens that are so probable together (nucleus)");
  add("--beams", o.text.beams,
      "Search the most probable text, keeping so many beginnings")
      ->check(CLI::Range(int64_t{1}, int64_t{10000}));
  verb.add_flag("--json", o.json, "Print the texts as JSON")->group(kGroup);
}

int write_text(const run::Run& run, GenerateCommand& o) {
  if (!o.output.empty() || !o.table.given.empty()) {
    throw UsageError("[generate] this run's model writes text, not a table",
                     "leave out --output and --given; the text goes to "
                     "standard output");
  }
  o.text.count = o.count.value_or(1);
  const auto texts = run::generate_text(run, o.text, o.table.seed);
  if (o.json) {
    const nlohmann::json record{{"prompt", o.text.prompt}, {"texts", texts}};
    using Handling = nlohmann::json::error_handler_t;
    fmt::print("{}\n", record.dump(2, ' ', false, Handling::replace));
    return 0;
  }
  for (const auto& text : texts) fmt::print("{}\n", plain_text(text, "\n\t"));
  return 0;
}

int write_trajectories(const run::Run& run, GenerateCommand& o) {
  if (o.output.empty()) {
    throw UsageError("[generate] this run's model draws whole trajectories",
                     "name an .h5 or .npz with --output");
  }
  run::TrajectoryOptions options{
      .seed = o.table.seed, .cases = o.cases, .given = o.table.given};
  options.count = o.count.value_or(options.count);
  std::optional<run::Ensemble> ensemble;
  if (!o.ensemble.empty()) {
    ensemble.emplace(run,
                     std::vector<std::filesystem::path>{o.ensemble.begin(),
                                                        o.ensemble.end()},
                     run::OpenOptions{.change = o.overrides.change()});
  }
  fmt::print("{}\n", run::generate_trajectories(
                         run, ensemble ? ensemble->model() : run.model(),
                         options, o.output));
  return 0;
}

int write_table(const run::Run& run, GenerateCommand& o) {
  if (o.output.empty()) {
    throw UsageError("[generate] this run's model draws a table",
                     "name a .csv, .h5 or .npz with --output");
  }
  o.table.count = o.count.value_or(o.table.count);
  fmt::print("{}\n", run::generate(run, o.table, o.output));
  return 0;
}

}  // namespace

void add_generate(CLI::App& app, Action& action) {
  const auto o = std::make_shared<GenerateCommand>();
  auto* verb = app.add_subcommand(
      "generate", "Draw new cases, or text, from a run's best model");
  verb->footer(
      "Runs of the task density draw samples of the distribution they "
      "learned, into a table;\nruns of the task sequence write text to "
      "standard output;\nruns of the task forecast with "
      "loss.frames=heteroscedastic draw whole trajectories of their\nfields, "
      "from first frames that are given or those of test cases."
      "\nExamples:\n  propagator generate runs/lecture-maf -o "
      "new.csv --count 5000\n  propagator generate runs/stars -o new.csv "
      "--given ages.csv --count 10   # ten of each row\n  propagator generate "
      "runs/phrase --prompt \"I am\"\n  propagator generate runs/text --prompt "
      "\"The model\" --temperature 0.8 --top-p 0.9 --length 400\n"
      "  propagator generate runs/bands -o futures.h5 --count 32 --cases 4\n"
      "  propagator generate runs/bands --ensemble runs/bands-1 runs/bands-2 "
      "--given first.npz -o futures.h5");
  verb->add_option("run", o->run, "The run's folder")->required();
  verb->add_option("-n,--count", o->count,
                   "New cases (default: 1000), with --given of each row; "
                   "texts (default: 1); or trajectories of each case (default: "
                   "16)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  verb->add_option("--seed", o->table.seed,
                   "Of the random numbers (default: 0): the same seed, the "
                   "same cases");
  verb->add_option("--from", o->from, "A checkpoint (default: the newest)");
  verb->add_option("--adapter", o->adapter,
                   "An adapter.safetensors that was trained from this run");
  verb->add_option("-o,--output", o->output,
                   ".csv, .h5 or .npz; of trajectories .h5 or .npz")
      ->group("Table");
  verb->add_option("--given", o->table.given,
                   "A table of what the model is given; for trajectories a "
                   "file of first frames, as for `predict`")
      ->group("Table");
  verb->add_flag("--force", o->force, "Replace the output file")
      ->group("Table");
  add_trajectory_options(*verb, *o);
  add_text_options(*verb, *o);
  o->overrides.add_to(*verb, Overrides::Subject::kModel);
  verb->callback([o, verb, &action] {
    const bool asks_for_text = verb->count("--prompt") > 0;
    action = [o, asks_for_text] {
      if (!o->output.empty()) expect_free(o->output, o->force);
      const auto run = run::open(o->run, {.from = o->from,
                                          .adapter = o->adapter,
                                          .change = o->overrides.change()});
      if (asks_for_text || run::writes_text(run)) return write_text(run, *o);
      if (run::draws_trajectories(run)) return write_trajectories(run, *o);
      if (!o->ensemble.empty()) {
        throw UsageError("[ensemble] runs of this task cannot be used together",
                         "runs of the task forecast can");
      }
      return write_table(run, *o);
    };
  });
}

}  // namespace propagator::cli
