#include "propagator/cli/commands.h"

#include <fmt/format.h>

#include <charconv>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/train/checkpoint.h"

namespace propagator::cli {

void Overrides::add_to(CLI::App& verb, bool with_training) {
  verb.add_option("-s,--set", assignments,
                  "Override a key of the configuration: -s train.batch=8")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  verb.add_option("--device", device, "auto, cpu, cuda, cuda:N or mps");
  verb.add_option("--precision", precision, "fp64, fp32, tf32 or bf16");
  verb.add_option("--threads", threads, "CPU threads (0: all cores)");
  if (!with_training) return;
  verb.add_option("--seed", seed, "Seed of data, weights and batches");
  verb.add_option("--time-limit", time_limit,
                  "Checkpoint and stop after this: 90s, 15m, 2h");
}

void Overrides::apply_to(config::Document& document) const {
  const auto set = [&](const std::optional<std::string>& value, const char* key,
                       const char* option) {
    if (value) document.set(key, *value, option);
  };
  set(device, "device", "--device");
  set(precision, "precision", "--precision");
  set(threads, "threads", "--threads");
  set(seed, "seed", "--seed");
  if (time_limit) {
    document.set("train.time_limit",
                 fmt::format("{}", parse_duration(*time_limit)),
                 "--time-limit");
  }
  for (const auto& assignment : assignments) {
    document.override_with(assignment);
  }
}

std::vector<fs::path> config_folders() {
  std::vector<fs::path> folders{"configs"};
  std::error_code error;
  const auto program = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    const auto prefix = program.parent_path().parent_path();
    // Installed: prefix/bin and prefix/share; in a build: build/bin.
    folders.push_back(prefix / "share/propagator/configs");
    folders.push_back(prefix.parent_path() / "configs");
  }
  return folders;
}

fs::path find_config(const std::string& name) {
  if (fs::is_regular_file(name)) return name;
  std::vector<std::string> known;
  for (const auto& folder : config_folders()) {
    for (const auto& file : {folder / name, folder / (name + ".yaml")}) {
      if (fs::is_regular_file(file)) return file;
    }
    std::error_code ignored;
    for (const auto& entry :
         fs::recursive_directory_iterator(folder, ignored)) {
      if (entry.path().extension() != ".yaml") continue;
      auto short_name = fs::relative(entry.path(), folder);
      known.push_back(short_name.replace_extension().string());
    }
  }
  const auto near = config::nearest(name, known);
  throw FileError(fmt::format("no configuration file {}", name),
                  near ? "did you mean " + *near + "?"
                       : "`propagator list` shows those that come with it");
}

fs::path choose_checkpoint(const train::RunDirectory& run,
                           const std::string& from) {
  if (!from.empty()) {
    for (const auto& path : {fs::path(from), run.checkpoints() / from}) {
      if (fs::is_directory(path)) return path;
    }
    throw FileError("no checkpoint at " + from,
                    "they are in " + run.checkpoints().string());
  }
  const auto all = train::list_checkpoints(run.checkpoints());
  if (all.empty()) {
    throw FileError(
        fmt::format("{} has no checkpoint yet", run.path().string()),
        "start it again with `propagator train --force`");
  }
  return all.back();
}

double parse_duration(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const std::string unit(rest, end);
  const double factor = unit.empty() || unit == "s" ? 1
                        : unit == "m"               ? 60
                        : unit == "h"               ? 3600
                                                    : 0;
  if (error != std::errc() || factor == 0 || !(value > 0)) {
    throw UsageError(
        fmt::format("--time-limit: expected a time such as 90s, 15m or 2h, got "
                    "'{}'",
                    text));
  }
  return value * factor;
}

}  // namespace propagator::cli
