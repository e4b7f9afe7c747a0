#include "propagator/run/reproduce.h"

#include "propagator/cli/commands.h"
#include "propagator/core/error.h"
#include "propagator/report/table.h"

namespace propagator::cli {
namespace {

struct ReproduceArguments {
  run::ReproduceRequest request;
  std::string runs = "runs/reproduce", out = "results";
  Overrides overrides;
};

// What was typed behind the row, but for folders.
std::string arguments_of(const ReproduceArguments& o) {
  std::string text;
  if (o.request.seeds != 0) text += fmt::format(" --seeds {}", o.request.seeds);
  const auto add = [&](const char* name,
                       const std::optional<std::string>& value) {
    if (value) text += fmt::format(" {} {}", name, *value);
  };
  add("--seed", o.overrides.seed);
  add("--device", o.overrides.device);
  add("--precision", o.overrides.precision);
  for (const auto& assignment : o.overrides.assignments) {
    text += fmt::format(" -s {}", assignment);
  }
  return text;
}

// "5, 2 of them failed"
std::string seeds_text(const nlohmann::json& summary) {
  const auto failed = summary.at("failed").get<int64_t>();
  auto text = fmt::format("{}", summary.at("seeds").size());
  if (failed > 0) text += fmt::format(", {} of them failed", failed);
  return text;
}

// "within 2.00e-02"; "-" where there is no band.
std::string band_text(const nlohmann::json& judged) {
  const auto max = judged.at("band")[1].get<double>();
  if (max == 0) return "-";
  const bool inside = judged.at("value").get<double>() <= max;
  return fmt::format("{} {:.2e}", inside ? "within" : "outside", max);
}

int print_rows(const std::vector<run::RowResult>& rows) {
  report::Table table(
      {"row", "mode", "metric", "ours", "published", "band", "seeds"});
  bool good = true;
  for (const auto& [name, summary, inside, leaks] : rows) {
    good = good && inside && !leaks;
    const auto& published = summary.at("document");
    const bool draft = summary.at("draft");
    table.row({name + (draft ? " (draft)" : ""), summary.at("mode"),
               summary.at("metric"), report::scientific(summary.at("value")),
               published.is_null() ? "-" : report::scientific(published),
               band_text(summary), seeds_text(summary)});
    if (!summary.contains("also")) continue;
    const auto& also = summary.at("also");
    table.row({"", "", also.at("metric"), report::scientific(also.at("value")),
               "-", band_text(also), ""});
  }
  fmt::print("\n{}", table.text());
  for (const auto& row : rows) {
    if (!row.leaks) continue;
    fmt::print("  {} calls itself honest and leaks: it has failed\n", row.name);
  }
  return static_cast<int>(good ? ExitCode::kOk : ExitCode::kOutsideBand);
}

int reproduce(ReproduceArguments& o) {
  o.request.runs = o.runs;
  o.request.out = o.out;
  o.request.where = o.overrides.where();
  o.request.how = o.overrides.how();
  o.request.settings = o.overrides.settings();
  o.request.time_limit = o.overrides.seconds();
  o.request.arguments = arguments_of(o);
  const auto reproduced = run::reproduce(o.request, observer());
  if (reproduced.stopped) return static_cast<int>(ExitCode::kStopped);
  return print_rows(reproduced.rows);
}

}  // namespace

void add_reproduce(CLI::App& app, Action& action) {
  const auto o = std::make_shared<ReproduceArguments>();
  auto* verb = app.add_subcommand(
      "reproduce", "Train and test rows of a publication, beside its numbers");
  verb->footer(
      "A row is a configuration. Its band, if it has one, is `reproduce.max`, "
      "the largest value of\nits metric that counts as reproduced; a row "
      "outside it, or one that calls itself honest and\nleaks, ends the "
      "program with 6. What is named is trained, with a band or without: a "
      "row, or\nwith TASK/PART* all that begin so. A task alone means its rows "
      "that have a band, and says\nwhich it leaves out. What is trained "
      "already is not trained again, and a row that was\nstopped goes on: "
      "with the same program on the same kind of machine, since a row names\n"
      "one commit and has seeds of one code.\n"
      "OUT has TASK/ROW.json of each row, and in OUT/figures several rows "
      "side by side.\n"
      "Examples:\n"
      "  propagator reproduce forecast/base-block --device cuda --precision "
      "tf32\n"
      "  propagator reproduce forecast --seeds 3\n"
      "  propagator reproduce 'forecast/question-*'   # all of them, though "
      "they have no band\n"
      "  propagator reproduce solve/wave-kan solve/wave-spformer-rope --device "
      "cuda");
  verb->add_option("rows", o->request.rows,
                   "A task, some of its rows, or the beginning of some: "
                   "TASK/PART*")
      ->required();
  verb->add_option("--seeds", o->request.seeds,
                   "Seeds to train each row with, from --seed on, if not as "
                   "many as it says")
      ->check(CLI::Range(1, 1000));
  verb->add_option("--runs", o->runs, "Folder of the runs")
      ->capture_default_str();
  const auto* out = verb->add_option("--out", o->out, "Folder of the results")
                        ->capture_default_str();
  verb->add_flag("--draft", o->request.draft,
                 "Mark the rows as drafts: a program built from changed "
                 "sources writes no others");
  verb->add_flag("--retrain", o->request.retrain,
                 "Train seeds again that are of another commit or machine");
  o->overrides.add_to(*verb, Overrides::Subject::kNewRun);
  verb->callback([o, out, &action] {
    o->request.own_out = out->count() > 0;
    action = [o] { return reproduce(*o); };
  });
}

}  // namespace propagator::cli
