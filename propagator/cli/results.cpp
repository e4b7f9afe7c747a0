#include "propagator/cli/results.h"

#include <fmt/format.h>

#include "propagator/core/error.h"
#include "propagator/core/progress.h"

namespace propagator::cli {

int print_result(const run::TestResult& result, bool as_json) {
  const int code = static_cast<int>(
      result.leaks_though_honest() ? ExitCode::kOutsideBand : ExitCode::kOk);
  if (as_json) {
    fmt::print("{}\n", result.record.dump(2));
    return code;
  }
  fmt::print("\n{}\n", result.evaluation.table.text());
  if (const auto verdict = run::verdict(result); !verdict.empty()) {
    fmt::print("  {}\n", verdict);
  }
  for (const auto& remark : result.evaluation.remarks) {
    fmt::print("  {}\n", remark);
  }
  if (!result.audit.is_null()) {
    fmt::print("  leak audit: {}\n",
               result.audit.at("verdict").get<std::string>());
  }
  return code;
}

void print_explanation(const nlohmann::json& numbers) {
  const auto print = [&](const char* key, const char* name) {
    if (!numbers.contains(key)) return;
    fmt::print("  {}: {}\n", name,
               numbers.at(key).at("verdict").get<std::string>());
  };
  print("learned_propagator", "learned propagator");
  print("learned_step", "learned step");
}

int print_trained(const run::Trained& trained, bool as_json) {
  if (trained.stopped()) return static_cast<int>(ExitCode::kStopped);
  if (!trained.result) return static_cast<int>(ExitCode::kOk);
  const auto& result = *trained.result;
  const int code = print_result(result, as_json);
  if (as_json) return code;
  const auto parameters = result.record.at("parameters").get<int64_t>();
  if (parameters == 0) {
    fmt::print("  fitted in {}, nothing to train\n",
               duration_text(trained.seconds));
  } else {
    const auto of =
        trained.tuning.is_null()
            ? std::string()
            : fmt::format(
                  "{} of ",
                  trained.tuning.at("trained_parameters").get<int64_t>());
    fmt::print("  trained {} steps in {}, {}{} parameters, best at step {}\n",
               trained.steps, duration_text(trained.seconds), of, parameters,
               trained.best_step);
  }
  print_explanation(trained.explanation);
  fmt::print("  run: {0}\n  result: {0}/result.json\n",
             trained.folder.string());
  if (!trained.page.empty()) {
    fmt::print("  report: {}\n", trained.page.string());
  }
  return code;
}

}  // namespace propagator::cli
