#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/data/named_table.h"
#include "propagator/tasks/described.h"
#include "propagator/tasks/locate/event_table.h"
#include "propagator/tasks/locate/locate.h"

namespace propagator::tasks {
namespace {

constexpr const char* kAxes[] = {"x", "y", "z"};

// Locates events from a list of their hits.
class LocateSurrogate : public Surrogate, public Described {
 public:
  LocateSurrogate(std::shared_ptr<torch::nn::Module> model,
                  const physics::Detector& detector, bool by_place,
                  bool has_uncertainty, int64_t batch, const Runtime& runtime)
      : model_(std::move(model)),
        locator_(models::as_locator(*model_)),
        detector_(detector),
        layout_(layout_of(detector, by_place)),
        sensors_(layout_.positions.to(runtime.options())),
        has_uncertainty_(has_uncertainty),
        batch_(batch),
        runtime_(runtime) {
    model_->eval();
  }

  std::vector<Port> inputs() const override {
    std::vector<Port> ports;
    for (const auto& name : layout_.columns()) {
      const char* meaning = "of each hit: where its sensor is, in m";
      if (name == "event")
        meaning = "of each hit: a whole number for its event";
      if (name == "sensor") meaning = "of each hit: a whole number, from 1";
      if (name == "time") meaning = "of each hit, in ns";
      if (name == "charge") meaning = "of each hit, in photoelectrons";
      ports.push_back({name, {-1}, meaning});
    }
    return ports;
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
    const auto rows = data::stack_points(inputs, layout_.columns());
    const auto events = make_events(rows.flatten(0, -2), layout_);
    models::Hits hits{events.times.to(runtime_.options()),
                      events.hits.to(runtime_.device), sensors_};
    if (events.charges.defined()) {
      hits.charges = events.charges.to(runtime_.options());
    }
    const auto located = locate_all(locator_, hits, batch_, runtime_);
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

  nlohmann::json details() const override {
    const auto place = [](const torch::Tensor& row) {
      const auto at = row.to(torch::kFloat64).contiguous();
      return std::vector<double>(at.data_ptr<double>(),
                                 at.data_ptr<double>() + at.numel());
    };
    auto sensors = nlohmann::json::array();
    for (int64_t s = 0; s < detector_.sensors(); ++s) {
      sensors.push_back(place(detector_.positions()[s]));
    }
    return {{"sensors", sensors},
            {"centre", detector_.volume().centre()},
            {"half", detector_.volume().half()},
            {"trigger", layout_.trigger},
            {"light_speed", detector_.light_speed()},
            {"light_at_1_m", detector_.light_at_unit()}};
  }

 private:
  std::shared_ptr<torch::nn::Module> model_;
  models::Locator& locator_;
  physics::Detector detector_;
  EventLayout layout_;
  torch::Tensor sensors_;  // (S, 3)
  bool has_uncertainty_;
  int64_t batch_;
  Runtime runtime_;
};

}  // namespace

std::unique_ptr<Surrogate> Locate::surrogate(
    std::shared_ptr<torch::nn::Module> model, const Runtime& runtime) const {
  return std::make_unique<LocateSurrogate>(
      std::move(model), detector(), by_place(),
      model_options_->has_uncertainty(), eval_options_.batch, runtime);
}

}  // namespace propagator::tasks
