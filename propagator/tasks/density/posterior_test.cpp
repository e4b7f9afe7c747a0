#include "propagator/tasks/density/posterior_test.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include <cmath>

#include "propagator/core/progress.h"

namespace propagator::tasks {

using torch::Tensor;

namespace {

// Steps towards a mode, the first so many standard deviations of the posterior
// long and each shorter by a factor.
constexpr int kAscents = 60;
constexpr double kFirstAscent = 0.5, kShorter = 0.9;

Tensor to_host(const Tensor& x) { return x.to(torch::kCPU, torch::kFloat64); }

// Samples of a batch of posteriors, and how dense each is.
struct Draws {
  Tensor x;        // (N, S, D)
  Tensor density;  // (N, S), logarithms
};
Draws draw_batch(models::Density& model, const Tensor& given, int64_t draws,
                 const RandomStream& stream) {
  const int64_t count = given.size(0), variables = model.shape().variables;
  const auto repeated = given.repeat_interleave(draws, 0);
  const auto x = model.sample(repeated, stream);
  return {x.view({count, draws, variables}),
          model.log_prob(x, repeated).view({count, draws})};
}

// Where a climb begins: the densest of the samples, (N, D), and how wide they
// lie.
struct Start {
  Tensor x, width;
};
Start start_of(const Draws& draws) {
  const auto best = std::get<1>(draws.density.max(1));
  return {draws.x.index({torch::arange(best.size(0), best.options()), best}),
          draws.x.std(1)};
}

// Upwards from there, in units of each posterior's width.
Tensor climb(models::Density& model, const Start& start, const Tensor& given) {
  const auto& width = start.width;
  auto x = start.x;
  auto highest = x;
  auto height = model.log_prob(x, given);
  double step = kFirstAscent;
  for (int n = 0; n < kAscents; ++n, step *= kShorter) {
    const torch::AutoGradMode with_gradients(true);
    const auto at = x.detach().requires_grad_();
    const auto density = model.log_prob(at, given);
    const auto uphill = width * torch::autograd::grad({density.sum()}, {at})[0];
    const torch::NoGradGuard no_grad;
    const auto higher = (density > height).unsqueeze(1);
    highest = torch::where(higher, x, highest);
    height = torch::maximum(density, height).detach();
    x = x + step * width * uphill / uphill.norm(2, {1}, true).clamp_min(1e-30);
  }
  return highest;
}

// Runs `work` on batches of rows so small that their samples fit, and tells how
// far it is.
template <class Work>
void in_batches(const char* title, int64_t count, int64_t rows, Work&& work) {
  Progress progress(title, count);
  for (int64_t begin = 0; begin < count; begin += rows) {
    const int64_t many = std::min(rows, count - begin);
    work(begin, many);
    progress.update(begin + many);
  }
}

int64_t rows_at_once(const PosteriorTestOptions& options) {
  return std::max<int64_t>(1, options.batch / options.draws);
}

RandomStream stream_of(int64_t seed, int64_t begin) {
  return {seed, fmt::format("eval/posteriors/{}", begin)};
}

}  // namespace

PosteriorTest test_posteriors(models::Density& model, const Tensor& x,
                              const Tensor& given,
                              const PosteriorTestOptions& options, int64_t seed,
                              const Runtime& runtime) {
  const torch::NoGradGuard no_grad;
  const PrecisionScope scope(runtime);
  const int64_t count = x.size(0);
  std::vector<Tensor> regions, ranks, modes;
  std::vector<Tensor> starts, widths;
  const auto sample = [&](int64_t begin, int64_t rows) {
    const auto truth = x.narrow(0, begin, rows);
    const auto known = given.narrow(0, begin, rows);
    const auto draws =
        draw_batch(model, known, options.draws, stream_of(seed, begin));
    const auto density = model.log_prob(truth, known);
    const auto share = [](const Tensor& is) {
      return to_host(is.to(torch::kFloat64).mean(1));
    };
    regions.push_back(share(draws.density > density.unsqueeze(1)));
    ranks.push_back(share(draws.x < truth.unsqueeze(1)));
    if (!options.modes) return;
    const auto start = start_of(draws);
    starts.push_back(start.x);
    widths.push_back(start.width);
  };
  in_batches("posteriors", count, rows_at_once(options), sample);
  PosteriorTest test{torch::cat(regions), torch::cat(ranks), {}};
  if (!options.modes) return test;
  // One place of each: many posteriors at once cost no more than few.
  const Start all{torch::cat(starts), torch::cat(widths)};
  in_batches("modes", count, options.batch, [&](int64_t begin, int64_t rows) {
    modes.push_back(to_host(climb(
        model, {all.x.narrow(0, begin, rows), all.width.narrow(0, begin, rows)},
        given.narrow(0, begin, rows))));
  });
  test.modes = torch::cat(modes);
  return test;
}

ExactPosterior exact_posterior(models::Density& model,
                               const Inference& inference, const Tensor& x,
                               const Tensor& observed, const Tensor& given,
                               const PosteriorTestOptions& options,
                               int64_t seed, const Runtime& runtime) {
  const torch::NoGradGuard no_grad;
  const PrecisionScope scope(runtime);
  std::vector<Tensor> log_prob, share;
  const auto weigh = [&](int64_t begin, int64_t rows) {
    const auto draws = draw_batch(model, given.narrow(0, begin, rows),
                                  options.draws, stream_of(seed, begin));
    const auto seen = observed.narrow(0, begin, rows);
    const auto weight = inference
                            .log_joint(to_host(draws.x).flatten(0, 1),
                                       seen.repeat_interleave(options.draws, 0))
                            .view({rows, options.draws}) -
                        to_host(draws.density);
    const auto total = torch::logsumexp(weight, 1);
    const double log_draws = std::log(static_cast<double>(options.draws));
    log_prob.push_back(
        inference.log_joint(to_host(x.narrow(0, begin, rows)), seen) - total +
        log_draws);
    share.push_back(
        torch::exp(2 * total - torch::logsumexp(2 * weight, 1) - log_draws));
  };
  in_batches("exact posteriors", x.size(0), rows_at_once(options), weigh);
  return {torch::cat(log_prob), torch::cat(share)};
}

}  // namespace propagator::tasks
