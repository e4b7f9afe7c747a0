#include "cost.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <span>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/machine.h"
#include "propagator/core/version.h"

namespace propagator::bench {
namespace {

struct Wanted {
  std::string run, out;
  int count;
  bool draft = false;
};

void measure(const CostProgram& program, const Wanted& wanted,
             const std::string& command) {
  expect_a_commit(wanted.draft || wanted.out.empty());
  nlohmann::json result{{"name", program.name}, {"command", command}};
  {
    const auto run = run::open(wanted.run, on_cpu());
    result["config_sha256"] = run.experiment().hash();
    result.update(computed_by(run.runtime()));
  }
  result.update(program.measure(wanted.run, wanted.count));
  result["libtorch"] = TORCH_VERSION;
  result["threads"] = 1;
  result["draft"] = wanted.draft || !names_a_commit(code_version());
  if (wanted.out.empty()) {
    fmt::print("{}\n", result.dump(2));
    return;
  }
  const fs::path file = wanted.out;
  if (file.has_parent_path()) fs::create_directories(file.parent_path());
  write_file(file, result.dump(2) + "\n");
}

}  // namespace

int run_cost_program(int argc, char** argv, const CostProgram& program) try {
  Wanted wanted{.run = "", .out = "", .count = program.count};
  CLI::App app(program.about);
  app.add_option("run", wanted.run, "Folder of a run that forecasts plates")
      ->required();
  app.add_option("count", wanted.count, "How many calls")
      ->check(CLI::Range(100, 100000000))
      ->capture_default_str();
  app.add_option("--out", wanted.out, "JSON file (default: printed)");
  app.add_flag("--draft", wanted.draft,
               "Mark the file as a draft: a program built from changed sources "
               "writes none otherwise");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::kUsage);
  }
  measure(program, wanted,
          fmt::format("{}", fmt::join(std::span(argv, argv + argc), " ")));
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "error: {}\n", error.what());
  if (const auto advice = hint(error); !advice.empty()) {
    fmt::print(stderr, "hint: {}\n", advice);
  }
  return static_cast<int>(exit_code(error));
}

run::OpenOptions on_cpu() {
  return {.change = [](config::Document& document) {
    document.set("device", "cpu", "bench");
    document.set("precision", "fp32", "bench");
    document.set("threads", "1", "bench");
  }};
}

tasks::NamedTensors one_case(const std::vector<tasks::Surrogate::Port>& ports) {
  tasks::NamedTensors inputs;
  for (const auto& port : ports) {
    auto sizes = port.shape;
    std::replace(sizes.begin() + 1, sizes.end(), int64_t{-1}, int64_t{8});
    if (sizes[0] < 0) sizes[0] = 1;
    inputs[port.name] = torch::full(sizes, 0.05F);
  }
  return inputs;
}

double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  return values[static_cast<size_t>(
      share * static_cast<double>(std::ssize(values) - 1))];
}

}  // namespace propagator::bench
