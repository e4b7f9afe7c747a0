#include "propagator/bench/residual_bench.h"

#include "propagator/core/error.h"
#include "propagator/models/field_net.h"
#include "propagator/models/pgt.h"
#include "propagator/nn/init.h"
#include "propagator/nn/window_attention.h"
#include "propagator/run/simulation.h"
#include "propagator/tasks/solve/solve.h"
#include "propagator/train/loss_gradient.h"

namespace propagator::bench {
namespace {

using autodiff::Jet;

// Training's own evaluation of the loss and its gradient.
class LossAndGradient {
 public:
  LossAndGradient(const run::Experiment& experiment,
                  std::shared_ptr<models::FieldNet> model,
                  const Runtime& runtime)
      : parameters_(*model),
        gradient_(experiment.task(), std::move(model), parameters_,
                  train::parts_of(experiment.task().size(data::Split::kTrain),
                                  experiment.train().batch,
                                  train::LossGradient::position_options(
                                      experiment.task(), runtime)),
                  experiment.train().slices, runtime) {}

  void run() { gradient_.evaluate(); }

 private:
  train::FlatParameters parameters_;
  train::LossGradient gradient_;
};

// Multiplications and additions of a network's matrix products for one row and
// one token, forward and backward.
struct TokenProducts {
  double linear = 0;
  double attention = 0;  // for one key, and one product of two rows
  double once = 0;       // for all rows together

  explicit TokenProducts(const torch::nn::Module& model) {
    bool of_points = true;  // they need no gradient
    for (const auto& module : model.modules()) {
      if (const auto* pgt = module->as<models::Pgt>()) {
        const auto products = pgt->products();
        linear = 3 * products.row;
        once = 3 * products.tokens;
        return;
      }
      if (const auto* layer = module->as<torch::nn::Linear>()) {
        if (!layer->weight.requires_grad()) continue;  // of a later slab
        linear += 2 * number(layer->weight.numel()) * (of_points ? 2 : 3);
        of_points = false;
      } else if (module->as<nn::WindowAttention>() != nullptr) {
        const int64_t width =
            module->named_parameters()["output.weight"].size(1);
        attention += 2 * 3 * number(2 * width);  // scores and mixed values
      }
    }
  }
};

// Products of two coefficients that one product of two jets takes.
double cauchy_products(const autodiff::JetLayout& layout) {
  double count = 0;
  for (int64_t k = 0; k <= layout.order(); ++k) {
    const int64_t directions = layout.directions(k);
    count +=
        number(layout.is_summed_at(k) ? directions + 2 : directions * (k + 1));
  }
  return count;
}

// Stands in for a network and notes what an evaluation asks of it: the
// operations, and the numbers that are at least read and written.
class Tally : public models::FieldNet {
 public:
  Tally(const torch::nn::Module& network, int64_t fields)
      : fields_(fields),
        products_(network),
        weights_(number(nn::parameter_count(network))),
        zero_(register_parameter("zero", torch::zeros({1}))) {
    operations = products_.once;
  }

  Jet forward(const Jet& points) override {
    const auto& layout = points.layout();
    auto shape = points.rows().sizes().vec();  // (M; N, T, D)
    const double windows = number(shape[1]), tokens = number(shape[2]);
    const double rows = number(layout.rows()) * windows * tokens;
    operations += products_.linear * rows + products_.attention *
                                                cauchy_products(layout) *
                                                windows * tokens * tokens;
    // Weights are read twice, their gradient is written; points are read;
    // fields and their gradient are read and written.
    numbers += 3 * weights_ + windows * tokens * number(shape[3]) +
               4 * rows * number(fields_);
    shape.back() = fields_;
    return Jet(zero_.expand(shape), layout);
  }

  double operations = 0, numbers = 0;

 private:
  int64_t fields_;
  TokenProducts products_;
  double weights_;
  torch::Tensor zero_;
};

}  // namespace

BenchResult bench_gradient(const run::Experiment& experiment,
                           const Runtime& runtime,
                           const BenchOptions& options) {
  auto& task = dynamic_cast<tasks::Solve&>(experiment.task());
  const auto name = experiment.run().task + "-gradient";
  if (task.mode() != config::name_of(pde::Derivatives::kHonest)) {
    throw UsageError(
        fmt::format("[bench] {} counts what honest derivatives take, got "
                    "derivatives={}",
                    name, task.mode()),
        "set derivatives=honest");
  }
  run::provide_simulated_files(task, experiment.run().device);
  task.prepare(experiment.run().seed, runtime);
  const auto model = std::dynamic_pointer_cast<models::FieldNet>(
      experiment.make_model(runtime));
  task.calibrate(*model);
  const auto fields =
      static_cast<int64_t>(task.problem().symbols.fields.size());
  const auto tally = std::make_shared<Tally>(*model, fields);
  tally->to(runtime.device, runtime.dtype());
  LossAndGradient(experiment, tally, runtime).run();
  LossAndGradient work(experiment, model, runtime);
  // A graph is captured in the fourth call.
  const auto times =
      measure(name, runtime, plan_of(runtime, options, {1, 5}, {5, 51}),
              [&] { work.run(); });
  return {.name = name,
          .cases = task.size(data::Split::kTrain),
          .ms = times,
          .operations = tally->operations,
          .bytes = item_bytes(runtime) * tally->numbers};
}

}  // namespace propagator::bench
