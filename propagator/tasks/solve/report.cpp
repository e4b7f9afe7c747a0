#include <fmt/ranges.h>
#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/core/log.h"
#include "propagator/core/progress.h"
#include "propagator/pde/residual/problem_box.h"
#include "propagator/tasks/solve/solve.h"
#include "propagator/tasks/solve/solve_checks.h"

// How a solution is tested and used.

namespace propagator::tasks {
namespace {

using models::as_field_net;
using nlohmann::json;
using report::scientific;
using torch::Tensor;

// Windows at once: more would only take memory.
constexpr int64_t kPart = 4096;

constexpr const char* kRelativeL2 = "relative L2";
constexpr const char* kRelativeL1 = "relative L1";
constexpr const char* kRelativeL2Of = "relative L2 of ";
constexpr const char* kResidual = "residual";

// A relative error at which a solution is none.
constexpr double kFailed = 0.2;

double rms(const Tensor& x) {
  return x.to(torch::kFloat64).square().mean().sqrt().item<double>();
}

}  // namespace

Solve::Answer Solve::answer_of(models::FieldNet& model) const {
  const torch::NoGradGuard no_grad;
  model.eval();
  const auto held = model.hold();
  const auto points = reference_.points();
  std::vector<Tensor> fields, residuals_of;
  Progress progress("testing", points.size(0));
  for (int64_t n = 0; n < points.size(0); n += kPart) {
    const auto windows = windows_of(points.slice(0, n, n + kPart));
    const auto answer = residuals_.answer(model, windows);
    fields.push_back(answer.fields.select(1, 0));
    residuals_of.push_back(torch::stack(answer.equations, -1).select(1, 0));
    progress.update(n);
  }
  return {reference_.without_free_means(torch::cat(fields).cpu()),
          torch::cat(residuals_of).cpu()};
}

Tensor Solve::outputs_at(models::FieldNet& model, const Tensor& points) const {
  const torch::NoGradGuard no_grad;
  model.eval();
  const auto held = model.hold();
  std::vector<Tensor> outputs;
  for (int64_t n = 0; n < points.size(0); n += kPart) {
    const auto windows = windows_of(points.slice(0, n, n + kPart));
    outputs.push_back(model.values(windows).select(1, 0).cpu());
  }
  return torch::cat(outputs).to(torch::kFloat64);
}

Evaluation Solve::evaluate(torch::nn::Module& module, data::Split split) {
  if (split != data::Split::kTest) {
    throw UsageError(
        fmt::format("[solve] expected the split test, got {}",
                    config::name_of(split)),
        "a solution is tested at one set of points, `eval.per_axis` of them");
  }
  auto& model = as_field_net(module);
  const auto answer = answer_of(model);
  json result{{"network", model_name_},
              {"points", answer.fields.size(0)},
              {"residual", rms(answer.residuals)}};
  for (const auto& [what, values] :
       {std::pair{"solution", answer.fields}, {"residual", answer.residuals}}) {
    if (torch::isfinite(values).all().item<bool>()) continue;
    throw NumericalError(fmt::format("[eval] the {} is not finite", what));
  }
  {
    const torch::NoGradGuard no_grad;
    // Not where the last training step had them: a test can be repeated.
    const auto faces = points_.first_faces();
    const auto left = residuals_.of_faces(model, faces);
    for (size_t n = 0; n < left.size(); ++n) {
      result["conditions"][conditions_.name_of(*faces[n].condition)] =
          pde::MeanSquares()({left[n]}).sqrt().item<double>();
    }
  }
  if (const auto* solution = reference_.find()) {
    const auto& truth = solution->fields;
    const auto solved_for = [&](const Tensor& all) {
      return all.slice(1, 0, problem_->solved());
    };
    result.update(
        relative_errors(solved_for(answer.fields), solved_for(truth)));
    result["reference_error"] = solution->error;
    if (!solution->left_out.empty()) result["left_out"] = solution->left_out;
    const auto& names = problem_->symbols.fields;
    for (size_t f = 0; f < names.size() && names.size() > 1; ++f) {
      const auto at = static_cast<int64_t>(f);
      const auto errors =
          relative_errors(answer.fields.select(1, at), truth.select(1, at));
      if (errors.contains("relative_l2")) {
        result["fields"][names[f]] = errors["relative_l2"];
      } else {
        result["fields_of_zero"][names[f]] = errors["largest_error"];
      }
    }
    if (result.contains("relative_l2")) {
      if (eval_options_.classical && problem_->unknowns.empty() &&
          problem_->functions.empty()) {
        result.update(reference_.classical(result.at("relative_l2")));
      }
      result["error_along"] =
          reference_.error_along(solved_for(answer.fields), solved_for(truth));
    }
  }
  measure(model, result);
  return present(std::move(result));
}

namespace {

bool has_failed(const json& numbers) {
  const auto error = numbers.value("relative_l2", json(0));
  return !error.is_number() || !(error.get<double>() <= kFailed);
}

report::Table table_of(const json& numbers) {
  report::Table table({"", "value"});
  const auto rows = [&](const char* list, const std::string& what) {
    const auto items = numbers.value(list, json::object());
    for (const auto& [name, value] : items.items()) {
      table.row({what + name, scientific(value)});
    }
  };
  if (numbers.contains("relative_l2")) {
    table.row({"relative L1", scientific(numbers.at("relative_l1"))});
    table.row({"relative L2", scientific(numbers.at("relative_l2"))});
  }
  if (numbers.contains("largest_error")) {
    table.row({"largest error", scientific(numbers.at("largest_error"))});
  }
  rows("fields", kRelativeL2Of);
  rows("fields_of_zero", "largest error of ");
  table.row({"residual of the equations", scientific(numbers.at("residual"))});
  rows("conditions", "");
  return table;
}

// Of the solution that answers are compared with.
void add_remarks_on_truth(const json& numbers,
                          std::vector<std::string>& remarks) {
  if (!numbers.contains("largest_error")) {
    remarks.push_back(
        "no solution is known to compare with (problem.exact): a small "
        "residual is all that can be said");
  } else if (!numbers.contains("relative_l2")) {
    remarks.push_back(
        "0 is a solution, and the one compared with: errors are absolute");
  }
  if (numbers.value("reference_error", 0.0) > 0) {
    remarks.push_back(fmt::format(
        "errors are against a numerical solution, itself good to {:.0e}",
        numbers.at("reference_error").get<double>()));
  }
  if (numbers.contains("left_out")) {
    remarks.push_back(fmt::format(
        "that solution is without {}: there are more conditions than it takes",
        fmt::join(numbers.at("left_out").get<std::vector<std::string>>(),
                  "; ")));
  }
}

std::vector<std::string> remarks_of(const json& numbers) {
  std::vector<std::string> remarks{
      fmt::format("residual and conditions are root mean squares; {} test "
                  "points",
                  numbers.at("points").get<int64_t>())};
  if (has_failed(numbers)) {
    remarks.push_back(
        "no solution was found, or a trivial one: another seed, model or "
        "sampling may find it, or more steps");
  }
  add_remarks_on_truth(numbers, remarks);
  if (!numbers.contains("classical")) return remarks;
  const auto& classical = numbers.at("classical");
  remarks.push_back(
      fmt::format("a classical method comes to {:.1e} in {:.3g} s here: {}",
                  classical.at("relative_l2").get<double>(),
                  classical.at("seconds").get<double>(),
                  classical.at("method").get<std::string>()));
  return remarks;
}

}  // namespace

std::vector<std::string> Solve::metric_names() const {
  std::vector<std::string> names{kRelativeL2, kRelativeL1, kResidual};
  const auto& fields = problem_->symbols.fields;
  if (fields.size() < 2) return names;
  for (const auto& field : fields) names.push_back(kRelativeL2Of + field);
  return names;
}

Evaluation Solve::present(json numbers) const {
  Evaluation evaluation{.table = table_of(numbers),
                        .remarks = remarks_of(numbers),
                        .curves = curves(numbers),
                        .failed = has_failed(numbers)};
  if (numbers.contains("relative_l2")) {
    evaluation.metrics = {{kRelativeL2, numbers.at("relative_l2")},
                          {kRelativeL1, numbers.at("relative_l1")}};
    const double error = numbers.at("relative_l2");
    evaluation.headline =
        fmt::format("The solution is off by {:.2g}\u00a0% of the {} one.",
                    100 * error, truth_name());
  }
  evaluation.metrics.push_back({kResidual, numbers.at("residual")});
  const auto fields = numbers.value("fields", json::object());
  for (const auto& [field, error] : fields.items()) {
    evaluation.metrics.push_back({kRelativeL2Of + field, error});
  }
  present_own(numbers, evaluation);
  evaluation.numbers = std::move(numbers);
  return evaluation;
}

Quantities Solve::quantities() const {
  auto names = eval_options_.quantities;
  if (names.empty()) names = problem_->symbols.fields;
  Quantities all;
  for (const auto& name : names) {
    try {
      all.emplace_back(name, pde::Expression::parse(name, problem_->symbols));
    } catch (const pde::SyntaxError& error) {
      throw UsageError(
          fmt::format("eval.quantities: {}", error.what()),
          std::ranges::count(name, '(') > std::ranges::count(name, ')')
              ? "a formula with a comma needs quotes: [\"d(u, x)\"]"
              : error.hint());
    }
    expect_smooth_enough(*problem_, model_options_->smoothness(),
                         all.back().second.derivatives(),
                         "eval.quantities asks for");
  }
  const auto own = own_quantities();
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

}  // namespace propagator::tasks
