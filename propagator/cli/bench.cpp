#include <ATen/Parallel.h>
#include <torch/version.h>

#include <algorithm>
#include <optional>

#include "propagator/bench/bench.h"
#include "propagator/bench/kernel_bench.h"
#include "propagator/cli/commands.h"
#include "propagator/core/blas_kernels.h"
#include "propagator/core/error.h"
#include "propagator/core/log.h"
#include "propagator/core/machine.h"
#include "propagator/core/version.h"
#include "propagator/report/table.h"
#include "propagator/run/configurations.h"
#include "propagator/tasks/forecast/fields/field_forecast.h"
#include "propagator/tasks/registry.h"

namespace propagator::cli {
namespace {

using nlohmann::json;

constexpr const char* kPerAxis = "points.per_axis";

struct BenchArguments {
  std::vector<std::string> what;
  std::string config;
  bench::BenchOptions bench;
  int64_t per_axis = 0;  // 0: the configuration's
  bool json = false;
  Overrides overrides;
};

struct Measured {
  Runtime runtime;
  int threads = 0;
  std::optional<bench::Limits> limits;
  std::vector<bench::BenchResult> benches;
  std::vector<bench::KernelResult> kernels;
};

// All that measure what the user's configuration trains.
std::vector<bench::BenchKind> fitting(const std::string& config) {
  const auto document =
      config.empty() ? config::Document()
                     : config::Document::from_file(run::find_config(config));
  const auto name = tasks::task_of(document);
  const auto task = tasks::make_task(document);
  const bool of_fields =
      dynamic_cast<const tasks::FieldForecast*>(task.get()) != nullptr;
  std::vector<bench::BenchKind> kinds;
  for (const auto& kind : bench::all_benches()) {
    const bool same = kind.task == name && kind.of_fields == of_fields;
    if (same && kind.measure_all == nullptr) kinds.push_back(kind);
  }
  return kinds;
}

std::vector<bench::BenchKind> named(const std::vector<std::string>& what) {
  const auto& all = bench::all_benches();
  std::vector<std::string> names;
  for (const auto& kind : all) names.push_back(kind.name);
  std::vector<bench::BenchKind> kinds;
  for (const auto& name : what) {
    const auto found = std::ranges::find_if(all, [&](const auto& kind) {
      return kind.name == name || kind.formerly == name;
    });
    if (found == all.end()) {
      throw UsageError(
          fmt::format("unknown benchmark '{}'", name),
          config::did_you_mean(
              name, names,
              fmt::format("there are {}", fmt::join(names, ", "))));
    }
    kinds.push_back(*found);
  }
  return kinds;
}

// Whether a recipe that the configuration names chooses the key: a benchmark
// measures that choice.
bool of_its_recipe(const config::Document& document, const std::string& key) {
  return document.get("recipe").has_value() &&
         (key.starts_with("model.") || key == "points.window");
}

config::Document read_config(const BenchArguments& o,
                             const bench::BenchKind& kind) {
  const auto file = run::find_config(o.config.empty() ? kind.config : o.config);
  auto document = config::Document::from_file(file);
  for (const auto& [key, value] : kind.forced) {
    document.set(key, value, "bench");
  }
  for (const auto& [key, value] : kind.settings) {
    if (!of_its_recipe(document, key)) document.suggest(key, value, "bench");
  }
  if (tasks::task_of(document) != kind.task) {
    throw UsageError(fmt::format("[bench] {} expected the task {}, got {}",
                                 kind.name, kind.task,
                                 tasks::task_of(document)));
  }
  if (o.per_axis > 0 && kind.settings.contains(kPerAxis)) {
    document.set(kPerAxis, std::to_string(o.per_axis), "--per-axis");
  }
  o.overrides.apply_to(document);
  log::info("{}: {}", kind.name, file.string());
  return document;
}

std::string digits(double ms) {
  return fmt::format("{:.{}f}", ms, ms < 1 ? 4 : ms < 100 ? 2 : 0);
}

std::string milliseconds(double ms) { return digits(ms) + " ms"; }

std::string percent(double share) {
  return fmt::format("{:.{}f} %", 100 * share, share < 0.1 ? 1 : 0);
}

std::string gigabytes(int64_t bytes) {
  return fmt::format("{:.2f} GB", 1e-9 * static_cast<double>(bytes));
}

void print_benches(const std::vector<bench::BenchResult>& results) {
  report::Table table({"bench", "cases", "median", "quartiles", "a case",
                       "floor", "to floor", "memory", "of products", "of copy",
                       "bound by"});
  for (const auto& r : results) {
    table.row(
        {r.name, std::to_string(r.cases), milliseconds(r.ms.median),
         fmt::format("{} to {}", digits(r.ms.lower_quartile),
                     milliseconds(r.ms.upper_quartile)),
         milliseconds(1e3 * r.seconds_per_case()),
         r.floor_ms ? milliseconds(*r.floor_ms) : "-",
         r.floor_ms ? fmt::format("{:.2f}", r.ms.median / *r.floor_ms) : "-",
         r.ms.peak_memory ? gigabytes(*r.ms.peak_memory) : "-",
         percent(r.shares.of_products), percent(r.shares.of_copy),
         r.shares.bound_by()});
  }
  fmt::print("{}\n", table.text());
}

void print_kernels(const std::vector<bench::KernelResult>& results) {
  report::Table table({"kernel", "ours", "reference", "faster by", "MB",
                       "MFLOP", "GB/s", "of limit", "bound by"});
  const auto microseconds = [](double us) {
    return fmt::format("{:.{}f} us", us, us < 100 ? 1 : 0);
  };
  for (const auto& r : results) {
    table.row({r.name, microseconds(r.ours_us),
               r.has_kernel ? microseconds(r.reference_us) : "the same",
               r.has_kernel ? fmt::format("{:.2f}x", r.reference_us / r.ours_us)
                            : "no kernel",
               fmt::format("{:.3g}", r.bytes * 1e-6),
               fmt::format("{:.3g}", r.operations * 1e-6),
               fmt::format("{:.3g}", r.bytes_per_second() * 1e-9),
               percent(r.shares.of_nearer()), r.shares.bound_by()});
  }
  fmt::print("{}\n", table.text());
}

void print_tables(const Measured& m) {
  if (!m.benches.empty()) print_benches(m.benches);
  if (!m.kernels.empty()) print_kernels(m.kernels);
  fmt::print(
      "  limits on {} in {}: {:.3g} TFLOP/s in a large matrix product, "
      "{:.3g} GB/s in a large copy\n",
      m.runtime.device_name(), config::name_of(m.runtime.precision),
      m.limits->operations * 1e-12, m.limits->bytes * 1e-9);
}

template <class Result>
json array_of(const std::vector<Result>& results) {
  json array = json::array();
  for (const auto& result : results) array.push_back(result.to_json());
  return array;
}

void print_json(const Measured& m) {
  json all{{"device", m.runtime.device_name()},
           {"precision", config::name_of(m.runtime.precision)},
           {"threads", m.threads},
           {"machine", machine_name(m.runtime.device)},
           {"libtorch", TORCH_VERSION},
           {"blas_kernels", blas_kernels()},
           {"code", code_version()},
           {"operations_per_second", m.limits->operations},
           {"bytes_per_second", m.limits->bytes},
           {"benches", array_of(m.benches)}};
  if (!m.kernels.empty()) all["kernels"] = array_of(m.kernels);
  fmt::print("{}\n", all.dump(2));
}

int bench(const BenchArguments& o) {
  Measured m;
  for (const auto& kind : o.what.empty() ? fitting(o.config) : named(o.what)) {
    const run::Experiment experiment(read_config(o, kind));
    m.runtime = experiment.make_runtime();
    const RuntimeScope scope(m.runtime, experiment.run().threads);
    m.threads = at::get_num_threads();
    if (!m.limits) m.limits = bench::measure_limits(m.runtime);
    run::with_memory_hint(experiment, [&] {
      if (kind.measure == nullptr && kind.measure_all == nullptr) {
        m.kernels =
            bench::bench_kernels(experiment, m.runtime, *m.limits, o.bench);
        return;
      }
      for (auto& result :
           bench::run_bench(kind, experiment, m.runtime, *m.limits, o.bench)) {
        m.benches.push_back(std::move(result));
      }
    });
  }
  (o.json ? print_json : print_tables)(m);
  return 0;
}

std::string footer() {
  std::string text =
      "WHAT is any of (if none is given, all those of the configuration's "
      "task; without\n--config those of forecast)\n";
  for (const auto& kind : bench::all_benches()) {
    text +=
        fmt::format("  {:<15} {} ({})\n", kind.name, kind.help, kind.config);
  }
  return text +
         "The floor is the time of a step's matrix products alone. `of "
         "products` and `of copy` are\nthe shares of what this device "
         "reaches in a large matrix product and in a large copy.\n"
         "A step works on 256 plates in memory, unless -s data.cases says "
         "otherwise.\n"
         "field-step and field-predict take random fields where those of the "
         "configuration would\nhave to be simulated; field-predict forecasts "
         "all frames of --cases cases (1).\n"
         "solve-gradient is what one evaluation of L-BFGS costs; a case is a "
         "point of the domain.\nUnless the problem says otherwise the model "
         "is pinnsformer, in windows of 5 tokens.\n"
         "green-attention runs only if it is named: a case is a token, --cases "
         "gives one number of\nthem, and -plain is the same with the whole "
         "bias "
         "in memory.\n"
         "kernels prints a table of its own: one call, the same in libtorch's "
         "operations, and\nthe share of the limit that is nearer.\n"
         "Examples:\n"
         "  propagator bench heat-step -s train.batch=4\n"
         "  propagator bench heat-step --config forecast/base-causal --device "
         "cuda --precision tf32\n"
         "  propagator bench rollout --cases 1200 --device cuda --json\n"
         "  propagator bench field-step --config "
         "forecast/burgers-0.01-space-time\n"
         "  propagator bench kernels --device cuda --precision tf32\n"
         "  propagator bench solve-gradient --per-axis 101 --device cuda\n"
         "  propagator bench green-attention --device cuda --precision tf32\n"
         "  propagator bench solve-gradient --config burgers -s "
         "model.name=spformer\n"
         "bench/compare runs the same work in other libraries beside it.";
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  const auto o = std::make_shared<BenchArguments>();
  auto* verb = app.add_subcommand(
      "bench", "Time training steps, rollouts, data, tests, kernels, PDEs");
  verb->footer(footer());
  verb->add_option("what", o->what, "What to time");
  verb->add_option("--config", o->config,
                   "A YAML file, or a name from `list`, for all of them");
  verb->add_option("--repeats", o->bench.repeats,
                   "Timed runs of each (default: what suits the device)")
      ->check(CLI::Range(1, 1000000));
  verb->add_option(
          "--cases", o->bench.cases,
          "Plates of rollout, data, eval and a kernel's cache (default: "
          "eval.batch; on a CPU at most 16); cases of field-predict (1); "
          "tokens of green-attention")
      ->check(CLI::Range(1, 10000000));
  verb->add_option("--per-axis", o->per_axis,
                   "Points along each variable of solve-gradient (default: the "
                   "problem's, or 51)")
      ->check(CLI::Range(2, 100000));
  verb->add_flag("--json", o->json, "Print the numbers as JSON");
  o->overrides.add_to(*verb, Overrides::Subject::kModel);
  verb->callback([o, &action] { action = [o] { return bench(*o); }; });
}

}  // namespace propagator::cli
