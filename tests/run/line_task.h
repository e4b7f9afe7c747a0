#pragma once

#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include "propagator/core/random.h"
#include "propagator/data/named_table.h"
#include "propagator/tasks/registry.h"

namespace propagator::testing {

// A complete task, registered by who includes it: a line through noisy points.
// docs/extending.md shows it as the least that a task takes.
class LineTask : public tasks::Task {
 public:
  void describe(config::Schema& s) override {
    s.field("line.slope", slope_, {.help = "slope of the true line"});
    s.field("line.noise", noise_, {.help = "noise of a point", .min = 0});
  }
  std::map<std::string, std::string> defaults() const override {
    return {{"train.batch", "8"}, {"schedule.lr", "0.3"}};
  }
  void validate() override {}
  std::shared_ptr<torch::nn::Module> make_model() const override {
    return std::make_shared<torch::nn::LinearImpl>(1, 1);
  }
  void prepare(int64_t seed, const Runtime& runtime) override {
    const RandomStream stream(seed, "line");
    x_ = stream.uniform({96, 1}, -1, 1, torch::kFloat64).to(runtime.options());
    const auto noise = RandomStream(seed, "noise")
                           .uniform({96, 1}, -noise_, noise_, torch::kFloat64);
    y_ = slope_ * x_ + 1 + noise.to(runtime.options());
  }
  int64_t size(data::Split split) const override {
    return split == data::Split::kTrain ? 64 : 16;
  }
  train::Loss loss(torch::nn::Module& model, data::Split split,
                   const torch::Tensor& positions) override {
    const auto at = positions + begin_of(split);
    const auto answer = line_of(model).forward(x_.index_select(0, at));
    const auto fit = (answer - y_.index_select(0, at)).square().mean();
    return {fit, {{"fit", 1, fit.detach()}}};
  }
  tasks::Evaluation evaluate(torch::nn::Module& model,
                             data::Split split) override {
    const torch::NoGradGuard no_grad;
    const auto all = torch::arange(size(split), torch::kInt64);
    const double mse = loss(model, split, all).total.item<double>();
    tasks::Evaluation evaluation{.numbers = {{"mse", mse}},
                                 .metrics = {{"MSE", mse}}};
    evaluation.table = report::Table({"line", "MSE"});
    evaluation.table.row({"ours", report::scientific(mse)});
    return evaluation;
  }

  class Surrogate : public tasks::Surrogate {
   public:
    explicit Surrogate(std::shared_ptr<torch::nn::Module> model)
        : model_(std::move(model)) {}
    std::vector<Port> inputs() const override { return {{"x", {-1}, ""}}; }
    std::vector<Port> outputs() const override { return {{"y", {-1}, ""}}; }
    tasks::NamedTensors apply(const tasks::NamedTensors& in) const override {
      const torch::NoGradGuard no_grad;
      const auto x = data::tensor_named(in, "x").to(torch::kFloat32);
      return {{"y", line_of(*model_).forward(x.unsqueeze(1)).squeeze(1)}};
    }

   private:
    std::shared_ptr<torch::nn::Module> model_;
  };
  std::unique_ptr<tasks::Surrogate> surrogate(
      std::shared_ptr<torch::nn::Module> model, const Runtime&) const override {
    return std::make_unique<Surrogate>(std::move(model));
  }

 private:
  static torch::nn::LinearImpl& line_of(torch::nn::Module& model) {
    return dynamic_cast<torch::nn::LinearImpl&>(model);
  }
  static int64_t begin_of(data::Split split) {
    return split == data::Split::kTrain        ? 0
           : split == data::Split::kValidation ? 64
                                               : 80;
  }

  double slope_ = 2, noise_ = 0.01;
  torch::Tensor x_, y_;  // (96, 1)
};

}  // namespace propagator::testing
