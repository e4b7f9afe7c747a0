#include <fmt/format.h>
#include <torch/utils.h>

#include "propagator/tasks/reconstruct/reconstruct.h"

// Functions of the equations that readings tell.

namespace propagator::tasks {
namespace {

using nlohmann::json;
using torch::Tensor;

// Places along each variable of a function, of one variable, of two, of more.
int64_t places_along(size_t variables) {
  return variables == 1 ? 101 : variables == 2 ? 41 : 11;
}

}  // namespace

std::vector<std::shared_ptr<FunctionNet>> Reconstruct::make_functions() const {
  const auto seen = conditions_.seen(domain());
  std::vector<std::shared_ptr<FunctionNet>> all;
  for (const auto& function : problem_->functions) {
    std::vector<int64_t> columns;
    for (const int64_t variable : function.variables) {
      const auto more = conditions_.columns_of(variable);
      columns.insert(columns.end(), more.begin(), more.end());
    }
    all.push_back(std::make_shared<FunctionNet>(function_options_, seen,
                                                columns, function.bounds));
  }
  return all;
}

json Reconstruct::function_of(models::FieldNet& model,
                              const pde::UnknownFunction& function) const {
  const auto& names = problem_->symbols.variables;
  std::vector<Tensor> along;  // what it does not depend on is in the middle
  for (const auto& [low, high] : problem_->domain) {
    along.push_back(torch::full({1}, (low + high) / 2, torch::kFloat64));
  }
  json found = json::object();
  for (const int64_t v : function.variables) {
    const auto place = static_cast<size_t>(v);
    const auto& [low, high] = problem_->domain[place];
    along[place] = torch::linspace(
        low, high, places_along(function.variables.size()), torch::kFloat64);
    found["along"][names[place]] = report::numbers(along[place]);
  }
  const auto points = pde::combinations(along);
  const auto value = outputs_at(model, points).select(1, function.field);
  found["value"] = report::numbers(value);
  if (!function.truth) return found;
  const auto variables = autodiff::coordinates(autodiff::Jet::constant(points));
  const auto truth =
      function.truth->evaluate({variables, {}}).value().expand_as(value);
  found["truth"] = report::numbers(truth);
  const bool known =
      freedoms()[static_cast<size_t>(function.field)] == pde::Freedom::kNone;
  found.update(
      known ? relative_errors(value, truth)
            : relative_errors(value - value.mean(), truth - truth.mean()));
  return found;
}

void Reconstruct::draw_functions(models::FieldNet& model,
                                 report::Report& report) const {
  for (const auto& function : problem_->functions) {
    if (function.variables.size() > 1) continue;  // a map of a field shows it
    const auto name = problem_->text(function);
    const auto& field =
        problem_->symbols.fields[static_cast<size_t>(function.field)];
    const auto& variable =
        problem_->symbols
            .variables[static_cast<size_t>(function.variables.front())];
    const auto found = function_of(model, function);
    const auto x = found.at("along").at(variable).get<std::vector<double>>();
    report::LinePlot plot{
        .title = name, .x = {.label = variable}, .y = {.label = field}};
    plot.series.push_back(
        {"found", x, found.at("value").get<std::vector<double>>()});
    if (found.contains("truth")) {
      plot.series.push_back({"truth", x,
                             found.at("truth").get<std::vector<double>>(),
                             report::Series::Style::kDashed});
    }
    report.figure("function-" + field, plot,
                  fmt::format("{}, as it was found beside the fields.", name));
  }
}

}  // namespace propagator::tasks
