#include "propagator/tasks/solve/net_in_units.h"

#include <torch/utils.h>

#include "propagator/nn/unit_axes.h"

namespace propagator::tasks {
namespace {

using autodiff::Jet;

class NetInUnits : public models::FieldNet {
 public:
  NetInUnits(std::shared_ptr<models::FieldNet> network,
             const models::FieldDomain& domain, const pde::ProblemScale& scale)
      : network_(register_module("network", std::move(network))),
        axes_(*this, domain),
        sizes_(register_buffer(
            "output_scale", torch::tensor(scale.fields(), torch::kFloat64))) {}

  Jet forward(const Jet& points) override {
    const auto answer = network_->forward(axes_(points));
    return answer * sizes_.to(answer.rows().scalar_type());
  }
  void initialise(int64_t seed) override { network_->initialise(seed); }
  std::shared_ptr<void> hold() override { return network_->hold(); }

 private:
  std::shared_ptr<models::FieldNet> network_;
  nn::UnitAxes axes_;
  torch::Tensor sizes_;  // (F)
};

}  // namespace

std::shared_ptr<models::FieldNet> make_in_units(
    const models::FieldNetOptions& options, const models::FieldDomain& domain,
    const pde::ProblemScale& scale) {
  if (scale.empty()) return options.make(domain);
  auto unit = domain;
  unit.low.assign(domain.low.size(), -1);
  unit.high.assign(domain.high.size(), 1);
  return std::make_shared<NetInUnits>(options.make(unit), domain, scale);
}

}  // namespace propagator::tasks
