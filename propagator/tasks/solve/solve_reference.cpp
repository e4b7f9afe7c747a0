#include "propagator/tasks/solve/solve_reference.h"

#include <torch/utils.h>

#include <algorithm>

#include "propagator/core/log.h"
#include "propagator/pde/text/known_functions.h"
#include "propagator/report/report.h"

namespace propagator::tasks {

using nlohmann::json;
using torch::Tensor;

Tensor SolveReference::points() const {
  const auto all = grid_.points();
  return rows_.defined() ? all.index_select(0, rows_) : all;
}

Tensor SolveReference::on_grid(const Tensor& values) const {
  if (!rows_.defined()) return values;
  const auto count = grid_.points().size(0);
  return torch::full({count, values.size(1)}, std::nan(""), values.options())
      .index_copy_(0, rows_, values);
}

Tensor SolveReference::without_free_means(const Tensor& fields) const {
  std::vector<Tensor> columns;
  for (size_t f = 0; f < freedoms_.size(); ++f) {
    auto column = fields.select(1, static_cast<int64_t>(f));
    switch (freedoms_[f]) {
      case pde::Freedom::kNone:
        break;
      case pde::Freedom::kConstant:
        column = column - column.mean();
        break;
      case pde::Freedom::kFunctionOfTime: {
        const auto by_time =
            on_grid(column.unsqueeze(1)).reshape(grid_.shape());
        std::vector<int64_t> others;
        for (int64_t v = 0; v < by_time.dim(); ++v) {
          if (v != problem_->time()) others.push_back(v);
        }
        const auto mean = rows_.defined() ? by_time.nanmean(others, true)
                                          : by_time.mean(others, true);
        column = (by_time - mean).flatten();
        if (rows_.defined()) column = column.index_select(0, rows_);
        break;
      }
    }
    columns.push_back(column);
  }
  return torch::stack(columns, 1);
}

const pde::Reference* SolveReference::find() {
  if (found_) return &*found_;
  const bool possible = !problem_->exact.empty() ||
                        (options_.classical && pde::is_known(*problem_));
  if (!possible || !none_.empty()) return nullptr;
  try {
    if (problem_->exact.empty()) {
      log::info("no exact solution is given: looking for a numerical one");
    }
    found_ = pde::reference_at(*problem_, points());
    found_->fields = without_free_means(found_->fields);
    return &*found_;
  } catch (const std::exception& error) {
    none_ = error.what();
    log::info("none was found: {}", none_);
    return nullptr;
  }
}

json SolveReference::classical(double error) {
  try {
    const auto answer =
        pde::classical_answer(*problem_, points(), *find(), error);
    return {{"classical",
             {{"relative_l2", answer.error},
              {"seconds", answer.seconds},
              {"unknowns", answer.unknowns},
              {"method", answer.description}}}};
  } catch (const std::exception& problem) {
    log::info("no classical answer: {}", problem.what());
    return json::object();
  }
}

int64_t SolveReference::followed() const {
  const int64_t parameter = problem_->parameter();
  return parameter >= 0 ? parameter : std::max<int64_t>(0, problem_->time());
}

json SolveReference::error_along(const Tensor& answer,
                                 const Tensor& truth) const {
  const int64_t along = followed();
  const auto shape = grid_.shape();
  const auto squares = [&](const Tensor& x) {
    auto sums = on_grid(x.to(torch::kFloat64).square().sum(-1, true))
                    .nan_to_num(0)
                    .view(shape);
    return sums.movedim(along, 0).reshape({grid_.size(along), -1}).sum(1);
  };
  // Not by the truth there, which may pass through zero.
  return report::numbers(
      (squares(answer - truth) / squares(truth).mean()).sqrt());
}

json relative_errors(const Tensor& answer, const Tensor& truth) {
  const auto error = (answer - truth).to(torch::kFloat64);
  const auto exact = truth.to(torch::kFloat64);
  json errors{{"largest_error", error.abs().max().item<double>()}};
  if (exact.abs().max().item<double>() == 0) return errors;
  errors["relative_l1"] =
      (error.abs().sum() / exact.abs().sum()).item<double>();
  errors["relative_l2"] =
      (error.square().sum() / exact.square().sum()).sqrt().item<double>();
  return errors;
}

}  // namespace propagator::tasks
