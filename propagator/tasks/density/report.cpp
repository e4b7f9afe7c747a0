#include <fmt/format.h>
#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/data/named_table.h"
#include "propagator/tasks/density/density.h"

// How densities are tested, shown and used.

namespace propagator::tasks {
namespace {

using data::Split;
using models::as_density;
using nlohmann::json;
using torch::Tensor;

constexpr const char* kLikelihood = "log likelihood (nats)";
constexpr const char* kGap = "below the truth (nats)";

// Cells along an edge of a picture, and samples drawn into it.
constexpr int64_t kCells = 160;
constexpr int64_t kShownSamples = 800;

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

struct Mean {
  double value, error;  // and its standard error
};
Mean mean_of(const Tensor& x) {
  return {x.mean().item<double>(),
          x.std().item<double>() / std::sqrt(static_cast<double>(x.size(0)))};
}

class DensitySurrogate : public Surrogate {
 public:
  DensitySurrogate(std::shared_ptr<torch::nn::Module> model,
                   std::vector<std::string> variables,
                   std::vector<std::string> given, int64_t batch,
                   const Runtime& runtime)
      : model_(std::move(model)),
        variables_(std::move(variables)),
        given_(std::move(given)),
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
    const auto rows =
        data::stack_points(inputs, names).flatten(0, -2).to(runtime_.options());
    const auto count = std::ssize(variables_);
    const auto answer = log_prob_of(
        as_density(*model_), rows.narrow(1, 0, count),
        rows.narrow(1, count, std::ssize(given_)), batch_, runtime_);
    if (!torch::isfinite(answer).all().item<bool>()) {
      throw NumericalError("[predict] a density is not finite",
                           "are the numbers like those of the training?");
    }
    return {{"log_density", answer}};
  }

 private:
  std::shared_ptr<torch::nn::Module> model_;
  std::vector<std::string> variables_, given_;
  int64_t batch_;
  Runtime runtime_;
};

// The centres of the cells of a window, (cells², 2), row 0 at its top.
Tensor centres_of(const Target::Window& window) {
  const auto along = [](const std::pair<double, double>& ends) {
    return ends.first + (ends.second - ends.first) *
                            (torch::arange(kCells, torch::kFloat64) + 0.5) /
                            static_cast<double>(kCells);
  };
  const auto mesh =
      torch::meshgrid({along(window.y).flip(0), along(window.x)}, "ij");
  return torch::stack({mesh[1].flatten(), mesh[0].flatten()}, 1);
}

}  // namespace

std::vector<std::string> DensityTask::metric_names() const {
  if (target_) return {kGap, kLikelihood};
  return {kLikelihood};
}

Tensor DensityTask::log_likelihoods(models::Density& model,
                                    const Sample& sample) const {
  return log_prob_of(model, sample.x, sample.given, eval_options_.batch,
                     runtime_);
}

Evaluation DensityTask::evaluate(torch::nn::Module& module, Split split) {
  module.eval();
  const auto& tested = sample(split);
  const auto ours = log_likelihoods(as_density(module), tested);
  if (!torch::isfinite(ours).all().item<bool>()) {
    throw NumericalError("[eval] a density is not finite");
  }
  const auto likelihood = mean_of(ours);
  Evaluation evaluation;
  evaluation.numbers = {{"samples", tested.x.size(0)},
                        {"variables", tested.x.size(1)},
                        {"log_likelihood", likelihood.value},
                        {"log_likelihood_error", likelihood.error}};
  report::Table table({"", "nats a sample"});
  const auto row = [&](const std::string& name, const Mean& mean) {
    table.row({name, fmt::format("{:.4f} +- {:.4f}", mean.value, mean.error)});
  };
  row("log likelihood of the model", likelihood);
  if (target_) {
    const auto truth =
        target_->log_prob(tested.x.to(torch::kCPU, torch::kFloat64));
    const auto gap = mean_of(truth - ours);
    row("log likelihood of the truth", mean_of(truth));
    row("the model is below the truth by", gap);
    table.row({"minus the entropy of the truth",
               fmt::format("{:.4f}", -target_->entropy())});
    evaluation.numbers["entropy"] = target_->entropy();
    evaluation.numbers["gap"] = gap.value;
    evaluation.numbers["gap_error"] = gap.error;
    evaluation.metrics.push_back({kGap, gap.value});
  }
  evaluation.metrics.push_back({kLikelihood, likelihood.value});
  evaluation.table = table;
  evaluation.remarks = {fmt::format(
      "{} samples that were not trained on; +- is the standard error of a mean",
      tested.x.size(0))};
  return evaluation;
}

std::unique_ptr<Surrogate> DensityTask::surrogate(
    std::shared_ptr<torch::nn::Module> model, const Runtime& runtime) const {
  return std::make_unique<DensitySurrogate>(std::move(model), shape().names,
                                            data_options_.given,
                                            eval_options_.batch, runtime);
}

NamedTensors DensityTask::generate(torch::nn::Module& module,
                                   const NamedTensors& given, int64_t count,
                                   const RandomStream& stream,
                                   const Runtime& runtime) const {
  module.eval();
  const PrecisionScope scope(runtime);
  auto rows =
      torch::zeros({count, std::ssize(data_options_.given)}, runtime.options());
  for (int64_t n = 0; n < rows.size(1); ++n) {
    rows.select(1, n).copy_(
        given.at(data_options_.given[static_cast<size_t>(n)]));
  }
  const auto drawn =
      as_density(module).sample(rows, stream).to(torch::kCPU, torch::kFloat64);
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

void DensityTask::draw(torch::nn::Module& module, const Evaluation*,
                       int64_t /*cases*/, report::Report& report) {
  if (!target_ || shape().variables != 2) return;
  auto& model = as_density(module);
  const auto window = target_->window();
  const auto centres = centres_of(window);
  const auto none = torch::zeros({centres.size(0), 0}, runtime_.options());
  const auto picture = [](const Tensor& log_density) {
    return log_density.exp().view({kCells, kCells});
  };
  const auto truth = picture(target_->log_prob(centres));
  const auto ours =
      picture(log_likelihoods(model, {centres.to(runtime_.options()), none}));
  const auto drawn = model
                         .sample(none.narrow(0, 0, kShownSamples),
                                 RandomStream(0, "figures/samples"))
                         .to(torch::kCPU, torch::kFloat64);
  report::Panel samples{.title = "samples of the model",
                        .values = torch::zeros_like(ours)};
  samples.dots = {report::numbers(drawn.select(1, 0)),
                  report::numbers(drawn.select(1, 1)),
                  {}};
  const report::Axis x{.label = shape().names[0],
                       .first = window.x.first,
                       .last = window.x.second};
  const report::Axis y{.label = shape().names[1],  // from the top
                       .first = window.y.second,
                       .last = window.y.first};
  report.figure(
      "density",
      report::HeatMaps{.x = x,
                       .y = y,
                       .rows = {{.bar_label = "density",
                                 .panels = {{.title = "truth", .values = truth},
                                            {.title = "model", .values = ours},
                                            samples}}}},
      "The distribution that the samples come from, the one that was learned, "
      "and new samples of it.");
}

}  // namespace propagator::tasks
