#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/data/named_table.h"
#include "propagator/tasks/locate/event_table.h"
#include "propagator/tasks/locate/locate.h"

namespace propagator::tasks {
namespace {

constexpr const char* kAxes[] = {"x", "y", "z"};

// Locates events from a list of their hits.
class LocateSurrogate : public Surrogate {
 public:
  LocateSurrogate(std::shared_ptr<torch::nn::Module> model,
                  const physics::Detector& detector, bool has_uncertainty,
                  int64_t batch, const Runtime& runtime)
      : model_(std::move(model)),
        locator_(models::as_locator(*model_)),
        sensors_(detector.positions().to(runtime.options())),
        trigger_(detector.options().trigger),
        has_uncertainty_(has_uncertainty),
        batch_(batch),
        runtime_(runtime) {
    model_->eval();
  }

  std::vector<Port> inputs() const override {
    return {{"event", {-1}, "of each hit: a whole number for its event"},
            {"sensor", {-1}, "of each hit: a whole number, from 1"},
            {"time", {-1}, "of each hit, in ns"}};
  }
  std::vector<Port> outputs() const override {
    std::vector<Port> ports{{"event", {-1}, "as they first came"}};
    for (const char* axis : kAxes) ports.push_back({axis, {-1}, "in m"});
    for (const char* axis : kAxes) {
      if (!has_uncertainty_) break;
      ports.push_back({fmt::format("sigma_{}", axis), {-1}, "its error in m"});
    }
    return ports;
  }

  NamedTensors apply(const NamedTensors& inputs) const override {
    const auto hits = data::stack_points(inputs, {"event", "sensor", "time"});
    const auto events =
        make_events(hits.flatten(0, -2), sensors_.size(0), trigger_);
    const auto located = locate_all(locator_,
                                    {events.times.to(runtime_.options()),
                                     events.hits.to(runtime_.device), sensors_},
                                    batch_, runtime_);
    if (!torch::isfinite(located.position).all().item<bool>()) {
      throw NumericalError("[predict] an answer is not finite",
                           "are the times like those of the training, in ns?");
    }
    NamedTensors answers{{"event", events.names.to(torch::kFloat64)}};
    for (int64_t d = 0; d < 3; ++d) {
      answers[kAxes[d]] = located.position.select(1, d);
      if (!located.factor.defined()) continue;
      answers[fmt::format("sigma_{}", kAxes[d])] =
          located.factor.select(1, d).square().sum(1).sqrt();
    }
    return answers;
  }

 private:
  std::shared_ptr<torch::nn::Module> model_;
  models::Locator& locator_;
  torch::Tensor sensors_;  // (S, 3)
  int64_t trigger_;
  bool has_uncertainty_;
  int64_t batch_;
  Runtime runtime_;
};

}  // namespace

std::unique_ptr<Surrogate> Locate::surrogate(
    std::shared_ptr<torch::nn::Module> model, const Runtime& runtime) const {
  return std::make_unique<LocateSurrogate>(std::move(model), detector(),
                                           model_options_->has_uncertainty(),
                                           eval_options_.batch, runtime);
}

}  // namespace propagator::tasks
