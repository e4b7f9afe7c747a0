#include "propagator/cli/commands.h"
#include "propagator/cli/results.h"
#include "propagator/core/error.h"
#include "propagator/data/safetensors.h"
#include "propagator/nn/tuned_part.h"
#include "propagator/report/vtk.h"
#include "propagator/run/comparison.h"
#include "propagator/run/run_report.h"
#include "propagator/tasks/drawing.h"

namespace propagator::cli {
namespace {

struct ReportArguments {
  std::vector<std::string> runs;
  std::string from, out = "comparison", paraview, weights, adapter,
                    split = "test";
  int64_t index = 0;
  bool force = false;
  Overrides overrides;
};

int compare(const ReportArguments& o) {
  expect_free(std::filesystem::path(o.out) / "report.html", o.force);
  const auto page =
      run::write_comparison({o.runs.begin(), o.runs.end()}, o.out);
  fmt::print("report: {}\n", page.string());
  return 0;
}

run::Run open_for_pages(const ReportArguments& o) {
  auto run = run::open(
      o.runs[0],
      {.from = o.from, .change = o.overrides.change(), .for_pages = true});
  run.prepare_data();
  return run;
}

int for_paraview(const ReportArguments& o) {
  if (std::filesystem::exists(o.paraview)) {
    throw UsageError(o.paraview + " exists already", "give a new folder");
  }
  const auto run = open_for_pages(o);
  const auto split = config::value_of<data::Split>(o.split);
  auto* drawing = dynamic_cast<tasks::Drawing*>(&run.experiment().task());
  const auto fields =
      drawing == nullptr
          ? std::nullopt
          : drawing->fields(run.model(), split, o.index, /*count=*/1);
  if (fields) {
    const auto file = report::write_vtk(*fields, 0, o.paraview);
    fmt::print("ParaView series of {}: {}\n", fields->cases[0], file.string());
    return 0;
  }
  const auto grid =
      drawing == nullptr ? std::nullopt : drawing->grid(run.model());
  if (!grid) {
    throw UsageError(
        "this run has no fields over one to three variables of "
        "space",
        "`propagator predict` writes its answers to a file");
  }
  std::vector<std::string> names;
  for (const auto& array : grid->arrays) names.push_back(array.name);
  fmt::print("ParaView series of {}: {}\n", fmt::join(names, ", "),
             report::write_vtk(*grid, o.paraview).string());
  return 0;
}

// The weights as one plain file, an adapter's merged into them.
int write_weights(const ReportArguments& o) {
  expect_free(o.weights, o.force);
  const auto run = run::open(
      o.runs[0],
      {.from = o.from, .adapter = o.adapter, .change = o.overrides.change()});
  const auto weights = train::copy_parameters(run.model());
  for (const auto& [name, value] : weights) {
    if (!nn::is_tuned_part(name)) continue;
    throw UsageError(
        fmt::format("{} is a part of its own and cannot be merged into the "
                    "weights of the model",
                    name),
        "the run itself can be used as it is; full, last_layer and lora can "
        "be merged");
  }
  data::save_safetensors(o.weights, {weights, {}});
  fmt::print("weights: {} ({} tensors)\n", o.weights, weights.size());
  return 0;
}

int rebuild(const ReportArguments& o) {
  const auto run = open_for_pages(o);
  const auto result = run::read_result(
      run.directory(), {.from = o.from, .change = o.overrides.change()});
  const auto report = run::write_run_report(
      run.experiment(), run.model(), run.runtime(), result ? &*result : nullptr,
      "checkpoint " + run.checkpoint(), run.directory());
  print_explanation(report.numbers);
  fmt::print("  report: {}\n", report.page.string());
  return 0;
}

}  // namespace

void add_report(CLI::App& app, Action& action) {
  const auto o = std::make_shared<ReportArguments>();
  auto* verb = app.add_subcommand(
      "report", "Make a run's page again, compare runs, or export a case");
  verb->footer(
      "Examples:\n"
      "  propagator report runs/quick                  # "
      "runs/quick/report.html\n"
      "  propagator report runs/a runs/b --out a-and-b  # a-and-b/report.html\n"
      "  propagator report runs/quick --paraview plate --case 3\n"
      "  propagator report runs/base --adapter adapter.safetensors \\\n"
      "    --weights merged.safetensors");
  verb->add_option("run", o->runs, "One run's folder, or several to compare")
      ->required();
  verb->add_option("--from", o->from, "A checkpoint (default: the newest)");
  const auto* out = verb->add_option("--out", o->out, "Folder of a comparison")
                        ->capture_default_str();
  verb->add_flag("--force", o->force,
                 "Replace a comparison, or a file of weights, that is there");
  auto* paraview =
      verb->add_option("--paraview", o->paraview,
                       "Instead of the page write a case (truth, prediction, "
                       "error), or the solution of a PDE, for ParaView into "
                       "this new folder");
  verb->add_option("--case", o->index, "The case for ParaView")
      ->check(CLI::NonNegativeNumber)
      ->needs(paraview)
      ->capture_default_str();
  verb->add_option("--split", o->split, "Where that case is from")
      ->check(CLI::IsMember({"train", "validation", "test"}))
      ->needs(paraview)
      ->capture_default_str();
  auto* weights = verb->add_option(
      "--weights", o->weights,
      "Instead of the page write the run's weights to this .safetensors");
  verb->add_option("--adapter", o->adapter,
                   "An adapter.safetensors, trained from this run, to merge "
                   "into them")
      ->needs(weights);
  o->overrides.add_to(*verb, Overrides::Subject::kModel);
  verb->callback([o, out, &action] {
    if (o->runs.size() == 1 && out->count() > 0) {
      throw UsageError("--out is the folder of a comparison",
                       "the page of one run is in its own folder");
    }
    action = [o] {
      if (!o->weights.empty() && o->runs.size() > 1) {
        throw UsageError("--weights takes one run");
      }
      if (!o->weights.empty()) return write_weights(*o);
      if (o->runs.size() == 1) {
        return o->paraview.empty() ? rebuild(*o) : for_paraview(*o);
      }
      if (!o->paraview.empty()) {
        throw UsageError("--paraview takes one run");
      }
      return compare(*o);
    };
  });
}

}  // namespace propagator::cli
