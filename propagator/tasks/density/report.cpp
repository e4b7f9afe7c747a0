#include <fmt/format.h>
#include <torch/utils.h>

#include <limits>

#include "propagator/core/error.h"
#include "propagator/data/named_table.h"
#include "propagator/tasks/calibration.h"
#include "propagator/tasks/density/density.h"
#include "propagator/tasks/density/posterior_test.h"
#include "propagator/tasks/density/two_sample.h"
#include "propagator/tasks/joins_cases.h"

// How densities are tested and used.

namespace propagator::tasks {
namespace {

using data::Split;
using models::as_density;
using nlohmann::json;
using torch::Tensor;

constexpr const char* kLikelihood = "log likelihood (nats)";
constexpr const char* kGap = "below the truth (nats)";

constexpr const char* kCovered = "90 % regions cover (%)";
constexpr const char* kToldApart = "told apart (%)";
// Posteriors whose exact density is computed too, from so many samples each.
constexpr int64_t kExact = 500, kExactDraws = 400;

// The logarithms of the densities of the rows, on the CPU in float64.
Tensor log_prob_of(models::Density& model, const Tensor& x, const Tensor& given,
                   int64_t batch, const Runtime& runtime) {
  const torch::NoGradGuard no_grad;
  const PrecisionScope scope(runtime);
  std::vector<Tensor> parts;
  for (int64_t n = 0; n < x.size(0); n += batch) {
    parts.push_back(
        model.log_prob(x.slice(0, n, n + batch), given.slice(0, n, n + batch))
            .to(torch::kCPU, torch::kFloat64));
  }
  return torch::cat(parts);
}

double median_of(const Tensor& x) { return x.median().item<double>(); }

struct Mean {
  double value, error;  // and its standard error
};
Mean mean_of(const Tensor& x) {
  return {x.mean().item<double>(),
          x.std().item<double>() / std::sqrt(static_cast<double>(x.size(0)))};
}

class DensitySurrogate : public Surrogate, public JoinsCases {
 public:
  DensitySurrogate(std::shared_ptr<torch::nn::Module> model,
                   std::vector<std::string> variables,
                   std::vector<std::string> given,
                   std::shared_ptr<const Inference> inference, int64_t batch,
                   const Runtime& runtime)
      : model_(std::move(model)),
        variables_(std::move(variables)),
        given_(std::move(given)),
        inference_(std::move(inference)),
        batch_(batch),
        runtime_(runtime) {
    model_->eval();
  }

  std::vector<Port> inputs() const override {
    std::vector<Port> ports;
    for (const auto& name : variables_)
      ports.push_back({name, {-1}, "a number of each sample"});
    for (const auto& name : given_)
      ports.push_back({name, {-1}, "what is given of each sample"});
    return ports;
  }
  std::vector<Port> outputs() const override {
    return {{"log_density", {-1}, "of each sample, in nats"}};
  }

  NamedTensors apply(const NamedTensors& inputs) const override {
    auto names = variables_;
    names.insert(names.end(), given_.begin(), given_.end());
    const auto rows = data::stack_points(inputs, names).flatten(0, -2);
    const auto count = std::ssize(variables_);
    const auto given =
        complete(inference_.get(), rows.narrow(1, count, std::ssize(given_)));
    const auto answer = log_prob_of(
        as_density(*model_), rows.narrow(1, 0, count).to(runtime_.options()),
        given.to(runtime_.options()), batch_, runtime_);
    // Where nothing can be, the answer is -inf.
    if (!(answer < std::numeric_limits<double>::infinity())
             .all()
             .item<bool>()) {
      throw NumericalError("[predict] a density is not finite",
                           "are the numbers like those of the training?");
    }
    return {{"log_density", answer}};
  }

 private:
  std::shared_ptr<torch::nn::Module> model_;
  std::vector<std::string> variables_, given_;
  std::shared_ptr<const Inference> inference_;  // or null
  int64_t batch_;
  Runtime runtime_;
};

std::string text_of(const Mean& mean) {
  return fmt::format("{:.4f} +- {:.4f}", mean.value, mean.error);
}

// With the log density of the truth, (N).
void compare_to(const Tensor& truth, const Tensor& ours, Evaluation& evaluation,
                report::Table& table) {
  const auto gap = mean_of(truth - ours);
  table.row({"log likelihood of the truth", text_of(mean_of(truth))});
  table.row({"the model is below the truth by", text_of(gap)});
  evaluation.numbers["gap"] = gap.value;
  evaluation.numbers["gap_error"] = gap.error;
  evaluation.metrics.push_back({kGap, gap.value});
}

}  // namespace

std::vector<std::string> DensityTask::metric_names() const {
  std::vector<std::string> names;
  if (target_) names.push_back(kGap);
  if (inference_ && eval_options_.draws > 0) names.push_back(kGap);
  names.push_back(kLikelihood);
  if (shape().given > 0 && eval_options_.draws > 0) names.push_back(kCovered);
  if (eval_options_.two_sample > 0) names.push_back(kToldApart);
  return names;
}

Tensor DensityTask::log_likelihoods(models::Density& model,
                                    const Sample& sample) const {
  return log_prob_of(model, sample.x, sample.given, eval_options_.batch,
                     runtime_);
}

Evaluation DensityTask::evaluate(torch::nn::Module& module, Split split) {
  module.eval();
  auto& model = as_density(module);
  const auto& tested = sample(split);
  const auto ours = log_likelihoods(model, tested);
  if (!torch::isfinite(ours).all().item<bool>()) {
    throw NumericalError("[eval] a density is not finite");
  }
  Evaluation evaluation;
  evaluation.numbers = {{"samples", tested.x.size(0)},
                        {"variables", tested.x.size(1)}};
  report::Table table({"", "nats a sample"});
  const auto likelihood = mean_of(ours);
  evaluation.numbers["log_likelihood"] = likelihood.value;
  evaluation.numbers["log_likelihood_error"] = likelihood.error;
  table.row({"log likelihood of the model", text_of(likelihood)});
  if (target_) {
    compare_to(target_->log_prob(tested.x.to(torch::kCPU, torch::kFloat64)),
               ours, evaluation, table);
    table.row({"minus the entropy of the truth",
               fmt::format("{:.4f}", -target_->entropy())});
    evaluation.numbers["entropy"] = target_->entropy();
  } else if (inference_ && split == Split::kTest && eval_options_.draws > 0) {
    compare_to_exact(model, ours, evaluation, table);
  }
  evaluation.metrics.push_back({kLikelihood, likelihood.value});
  evaluation.remarks = {fmt::format(
      "{} samples that were not trained on; +- is the standard error of a mean",
      tested.x.size(0))};
  if (shape().given > 0 && eval_options_.draws > 0) {
    judge_posteriors(model, tested, evaluation, table);
  }
  if (eval_options_.two_sample > 0) {
    judge_samples(model, tested, evaluation, table);
  }
  evaluation.headline =
      evaluation.numbers.contains("gap")
          ? fmt::format("The model is {:.3g} nats a sample below the truth.",
                        evaluation.numbers.at("gap").get<double>())
          : fmt::format(
                "The model gives new samples a log likelihood of {:.3g} "
                "nats each.",
                likelihood.value);
  evaluation.table = table;
  return evaluation;
}

void DensityTask::compare_to_exact(models::Density& model, const Tensor& ours,
                                   Evaluation& evaluation,
                                   report::Table& table) const {
  const auto& tested = sample(Split::kTest);
  if (const auto evidence = inference_->log_evidence(observed_)) {
    const auto truth = tested.x.to(torch::kCPU, torch::kFloat64);
    compare_to(inference_->log_joint(truth, observed_) - *evidence, ours,
               evaluation, table);
    return;
  }
  const int64_t count = std::min(kExact, tested.x.size(0));
  const auto exact = exact_posterior(
      model, *inference_, tested.x.narrow(0, 0, count),
      observed_.narrow(0, 0, count), tested.given.narrow(0, 0, count),
      {.draws = kExactDraws, .batch = eval_options_.batch}, seed_, runtime_);
  compare_to(exact.log_prob, ours.narrow(0, 0, count), evaluation, table);
  evaluation.numbers["samples_that_count"] = exact.share.mean().item<double>();
}

void DensityTask::judge_posteriors(models::Density& model, const Sample& tested,
                                   Evaluation& evaluation,
                                   report::Table& table) const {
  const auto test = test_posteriors(model, tested.x, tested.given,
                                    {.draws = eval_options_.draws,
                                     .batch = eval_options_.batch,
                                     .modes = inference_ != nullptr},
                                    seed_, runtime_);
  auto& numbers = evaluation.numbers;
  for (const double share : {0.5, 0.9, 0.95}) {
    const auto name = fmt::format("{:.0f} %", 100 * share);
    const double found = share_within(test.regions, share);
    numbers["coverage"][name] = found;
    table.row({fmt::format("regions of {} cover", name),
               fmt::format("{:.1f} %", 100 * found)});
  }
  evaluation.metrics.push_back(
      {kCovered, 100 * share_within(test.regions, 0.9)});
  const auto all = CoverageCurve::of_regions(test.regions);
  numbers["calibration_error"] = all.error();
  std::vector<std::pair<std::string, CoverageCurve>> curves{{"all", all}};
  const auto names = shape().names;
  for (int64_t d = 0; d < std::ssize(names); ++d) {
    // The smallest central interval that holds the truth.
    const auto central = (2 * test.ranks.select(1, d) - 1).abs();
    const auto& name = names[static_cast<size_t>(d)];
    curves.emplace_back(name, CoverageCurve::of_regions(central));
    numbers["rank_calibration_error"][name] = curves.back().second.error();
    numbers["rank_histogram"][name] =
        rank_histogram(test.ranks.select(1, d), eval_options_.draws);
  }
  evaluation.curves = calibration_plot(curves);
  if (!inference_) return;
  const auto truth = tested.x.to(torch::kCPU, torch::kFloat64);
  const auto classical =
      inference_->supports().from_line(tested.given.narrow(1, 0, truth.size(1))
                                           .to(torch::kCPU, torch::kFloat64));
  const auto units = torch::tensor(inference_->units(), torch::kFloat64);
  const auto off = [&](const Tensor& answer) {
    return median_of(((answer - truth) / units).norm(2, {1}));
  };
  numbers["median_error"] = {{"mode", off(test.modes)},
                             {"classical", off(classical)}};
  table.row(
      {"median error of the mode", fmt::format("{:.4g}", off(test.modes))});
  table.row({fmt::format("median error of {}", inference_->name_of_estimate()),
             fmt::format("{:.4g}", off(classical))});
}

void DensityTask::judge_samples(models::Density& model, const Sample& tested,
                                Evaluation& evaluation,
                                report::Table& table) const {
  // Other rows are given to the new samples: rows that come twice would tell.
  const int64_t count =
      std::min(eval_options_.two_sample, tested.x.size(0) / 2);
  const auto first = tested.given.narrow(0, 0, count);
  const auto given = tested.given.narrow(0, count, count);
  const PrecisionScope scope(runtime_);
  const auto drawn =
      model.sample(given, RandomStream(seed_, "eval/two-sample"));
  const auto told =
      tell_apart(torch::cat({tested.x.narrow(0, 0, count), first}, 1),
                 torch::cat({drawn, given}, 1), seed_);
  evaluation.numbers["told_apart"] = told.accuracy;
  evaluation.numbers["told_apart_error"] = told.error;
  evaluation.metrics.push_back({kToldApart, 100 * told.accuracy});
  table.row({"a network tells samples from data in",
             fmt::format("{:.1f} +- {:.1f} %", 100 * told.accuracy,
                         100 * told.error)});
}

std::unique_ptr<Surrogate> DensityTask::surrogate(
    std::shared_ptr<torch::nn::Module> model, const Runtime& runtime) const {
  return std::make_unique<DensitySurrogate>(std::move(model), shape().names,
                                            given_columns(), inference_,
                                            eval_options_.batch, runtime);
}

NamedTensors DensityTask::generate(torch::nn::Module& module,
                                   const NamedTensors& given, int64_t count,
                                   const RandomStream& stream,
                                   const Runtime& runtime) const {
  module.eval();
  const PrecisionScope scope(runtime);
  const auto names_given = given_columns();
  auto rows = torch::zeros({count, std::ssize(names_given)}, torch::kFloat64);
  for (int64_t n = 0; n < rows.size(1); ++n) {
    rows.select(1, n).copy_(given.at(names_given[static_cast<size_t>(n)]));
  }
  const auto drawn =
      as_density(module)
          .sample(complete(inference_.get(), rows).to(runtime.options()),
                  stream)
          .to(torch::kCPU, torch::kFloat64);
  if (!torch::isfinite(drawn).all().item<bool>()) {
    throw NumericalError("[generate] a sample is not finite",
                         "is what is given like that of the training?");
  }
  NamedTensors columns;
  const auto names = shape().names;
  for (size_t d = 0; d < names.size(); ++d) {
    columns[names[d]] = drawn.select(1, static_cast<int64_t>(d));
  }
  return columns;
}

}  // namespace propagator::tasks
