#include "propagator/tasks/reconstruct/function_net.h"

#include <torch/utils.h>

#include "propagator/models/pinn.h"

namespace propagator::tasks {
namespace {

models::FieldDomain seen_by(const models::FieldDomain& domain,
                            const std::vector<int64_t>& columns) {
  models::FieldDomain seen;
  for (const int64_t column : columns) {
    seen.low.push_back(domain.low[static_cast<size_t>(column)]);
    seen.high.push_back(domain.high[static_cast<size_t>(column)]);
  }
  return seen;
}

std::shared_ptr<models::FieldNet> network_of(
    const FunctionOptions& options, const models::FieldDomain& domain) {
  models::PinnOptions network;
  network.width = options.width;
  network.layers = options.layers;
  return network.make(domain);
}

}  // namespace

FunctionNet::FunctionNet(const FunctionOptions& options,
                         const models::FieldDomain& domain,
                         const std::vector<int64_t>& columns,
                         const std::optional<pde::Interval>& bounds)
    : columns_(columns),
      axes_(*this, seen_by(domain, columns)),
      network_(register_module("network",
                               network_of(options, seen_by(domain, columns)))) {
  if (bounds) range_.emplace(*bounds);
}

autodiff::Jet FunctionNet::forward(const autodiff::Jet& points) {
  const auto seen = points.linear([&](const torch::Tensor& rows) {
    std::vector<torch::Tensor> chosen;
    for (const int64_t column : columns_) {
      chosen.push_back(rows.select(-1, column));
    }
    return torch::stack(chosen, -1);
  });
  const auto answer = network_->forward(axes_(seen));
  return range_ ? (*range_)(answer) : answer;
}

void FunctionNet::initialise(int64_t seed) {
  network_->initialise(seed);
  const torch::NoGradGuard no_grad;
  auto parameters = network_->parameters();
  for (auto last = parameters.end() - 2; last != parameters.end(); ++last) {
    last->zero_();
  }
}

}  // namespace propagator::tasks
