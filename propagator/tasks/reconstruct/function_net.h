#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "propagator/models/field_net.h"
#include "propagator/nn/unit_axes.h"
#include "propagator/pde/text/sought_range.h"
#include "propagator/tasks/reconstruct/reconstruct_options.h"

namespace propagator::tasks {

// A function of some variables that is found beside the fields, (M; …, D) →
// (M; …, 1): a small tanh network that sees their coordinates alone, so that
// derivatives by all others are exactly 0; within its bounds by a smooth map.
// It begins as a constant: the middle of its bounds, or 0.
class FunctionNet : public models::FieldNet {
 public:
  // `columns` of the coordinates on `domain` are those that it sees.
  FunctionNet(const FunctionOptions& options, const models::FieldDomain& domain,
              const std::vector<int64_t>& columns,
              const std::optional<pde::Interval>& bounds);

  autodiff::Jet forward(const autodiff::Jet& points) override;
  void initialise(int64_t seed) override;

 private:
  std::vector<int64_t> columns_;
  nn::UnitAxes axes_;
  std::shared_ptr<models::FieldNet> network_;
  std::optional<pde::SoughtRange> range_;
};

}  // namespace propagator::tasks
