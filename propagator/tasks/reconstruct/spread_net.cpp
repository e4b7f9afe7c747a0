#include "propagator/tasks/reconstruct/spread_net.h"

#include <torch/utils.h>

#include "propagator/models/pinn.h"

namespace propagator::tasks {
namespace {

std::shared_ptr<models::FieldNet> shape_for(const models::FieldDomain& domain) {
  models::PinnOptions small;
  small.width = 16;
  small.layers = 2;
  return small.make(domain);
}

}  // namespace

SpreadNet::SpreadNet(const models::FieldDomain& domain)
    : axes_(*this, domain),
      shape_(register_module("shape", shape_for(domain))),
      level_(
          register_parameter("level", torch::zeros({domain.fields}), false)) {}

autodiff::Jet SpreadNet::forward(const autodiff::Jet& points) {
  return shape_->forward(axes_(points)) + level_;
}

void SpreadNet::set_level(const torch::Tensor& level) {
  const torch::NoGradGuard no_grad;
  level_.copy_(torch::where(torch::isfinite(level), level, level_));
}

}  // namespace propagator::tasks
