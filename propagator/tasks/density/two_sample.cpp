#include "propagator/tasks/density/two_sample.h"

#include <fmt/format.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/utils.h>

#include <cmath>

#include "propagator/core/random.h"
#include "propagator/nn/init.h"

namespace propagator::tasks {

using torch::Tensor;

namespace {

constexpr int64_t kWidth = 64, kBatch = 500, kSteps = 1000;

torch::nn::Sequential make_judge(int64_t inputs, int64_t seed) {
  using torch::nn::Linear;
  using torch::nn::ReLU;
  torch::nn::Sequential judge(Linear(inputs, kWidth), ReLU(),
                              Linear(kWidth, kWidth), ReLU(),
                              Linear(kWidth, 1));
  nn::initialise(*judge, seed);
  return judge;
}

void teach(torch::nn::Sequential& judge, const Tensor& rows,
           const Tensor& labels, int64_t seed) {
  torch::optim::Adam adam(judge->parameters(), torch::optim::AdamOptions(2e-3));
  const RandomStream stream(seed, "two-sample/batches");
  const int64_t count = rows.size(0), batch = std::min(kBatch, count);
  const torch::AutoGradMode with_gradients(true);
  for (int64_t n = 0; n < kSteps; ++n) {
    std::vector<int64_t> at;
    for (int64_t i = 0; i < batch; ++i) at.push_back(stream.below(count, n, i));
    const auto chosen = torch::tensor(at);
    adam.zero_grad();
    torch::nn::functional::binary_cross_entropy_with_logits(
        judge->forward(rows.index_select(0, chosen)).squeeze(1),
        labels.index_select(0, chosen))
        .backward();
    adam.step();
  }
}

}  // namespace

TwoSample tell_apart(const Tensor& first, const Tensor& second, int64_t seed) {
  const int64_t count = first.size(0);
  const auto all = torch::cat({first, second}).to(torch::kCPU, torch::kFloat32);
  const auto spread = all.std(0, /*unbiased=*/false);
  const auto rows = (all - all.mean(0)) /
                    torch::where(spread > 0, spread, torch::ones_like(spread));
  const auto labels = torch::cat({torch::zeros({count}), torch::ones({count})});
  const auto order = torch::tensor(
      RandomStream(seed, "two-sample/split").permutation(2 * count, 0));
  const auto taught = order.slice(0, 0, count), judged = order.slice(0, count);
  auto judge = make_judge(rows.size(1), seed);
  teach(judge, rows.index_select(0, taught), labels.index_select(0, taught),
        seed);
  const torch::NoGradGuard no_grad;
  const auto said = judge->forward(rows.index_select(0, judged)).squeeze(1) > 0;
  const double accuracy = (said == (labels.index_select(0, judged) > 0.5))
                              .to(torch::kFloat64)
                              .mean()
                              .item<double>();
  return {accuracy,
          std::sqrt(accuracy * (1 - accuracy) / static_cast<double>(count))};
}

}  // namespace propagator::tasks
