#include "propagator/cli/commands.h"

#include <fmt/format.h>

#include <charconv>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/log.h"

namespace propagator::cli {

void Overrides::add_to(CLI::App& verb, Subject subject) {
  verb.add_option("-s,--set", assignments,
                  subject == Subject::kModel
                      ? "Override a key of the configuration (`check` shows "
                        "them), mostly of eval"
                      : "Override a key of the configuration: -s train.batch=8")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  verb.add_option("--device", device, "auto, cpu, cuda, cuda:N or mps");
  verb.add_option("--precision", precision, "fp64, fp32, tf32 or bf16");
  verb.add_option("--threads", threads, "CPU threads (0: all cores)");
  if (subject == Subject::kModel) return;
  if (subject == Subject::kNewRun) {
    verb.add_option("--seed", seed, "Seed of data, weights and batches");
  }
  verb.add_option("--time-limit", time_limit,
                  "Checkpoint and stop this session after: 90s, 15m, 2h");
}

void Overrides::add_model_to(CLI::App& verb, const std::string& help) {
  verb.add_option("--model", model, help);
}

namespace {

void set(config::Document& document, const std::optional<std::string>& value,
         const char* key, const char* option) {
  if (value) document.set(key, *value, option);
}

}  // namespace

run::Change Overrides::where() const {
  return [device = device, threads = threads](config::Document& document) {
    set(document, device, "device", "--device");
    set(document, threads, "threads", "--threads");
  };
}

run::Change Overrides::how() const {
  return [precision = precision, seed = seed](config::Document& document) {
    set(document, precision, "precision", "--precision");
    set(document, seed, "seed", "--seed");
  };
}

run::Change Overrides::settings() const {
  if (assignments.empty()) return {};
  return [assignments = assignments](config::Document& document) {
    for (const auto& one : assignments) document.override_with(one);
  };
}

run::Change Overrides::change() const {
  return
      [copy = *this](config::Document& document) { copy.apply_to(document); };
}

void Overrides::apply_to(config::Document& document) const {
  where()(document);
  how()(document);
  set(document, model, "model.name", "--model");
  if (const auto set_keys = settings()) set_keys(document);
  // The run is named after the one; the other would be trained.
  if (model && document.get("model.name") != model) {
    throw UsageError(
        fmt::format("--model {} and {} contradict each other", *model,
                    document.entries().at("model.name").where),
        "leave one of them out");
  }
}

std::optional<double> Overrides::seconds() const {
  if (!time_limit) return std::nullopt;
  return parse_duration(*time_limit);
}

void expect_free(const fs::path& file, bool force) {
  if (fs::exists(file) && !force) {
    throw UsageError(file.string() + " exists already", "--force replaces it");
  }
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
