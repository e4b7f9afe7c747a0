#include "propagator/tasks/forecast/fields/replayed_rollout.h"

#include <torch/utils.h>

#include "propagator/core/device_graph.h"

namespace propagator::tasks {
namespace {

using torch::Tensor;

constexpr int64_t kFewNumbers = 1 << 18;  // given; more keep a GPU busy
constexpr size_t kMostShapes = 8;         // each keeps memory

Tensor copy_of(const Tensor& x) { return x.defined() ? x.clone() : x; }

void copy_to(const Tensor& x, const Tensor& from) {
  if (x.defined()) x.copy_(from);
}

}  // namespace

struct ReplayedRollout::Kept {
  Kept(models::FieldForecaster& model, const Tensor& first,
       const models::Told& its_told, int64_t steps)
      : given(first.clone()),
        told(copy_of(its_told.numbers), copy_of(its_told.constants)),
        graph([this, &model, steps] {
          answer = model.rollout(given, told, steps);
        }) {}

  Tensor run(const Tensor& first, const models::Told& its_told) {
    given.copy_(first);
    copy_to(told.numbers, its_told.numbers);
    copy_to(told.constants, its_told.constants);
    graph.run();
    return answer.clone();
  }

  // Where the graph reads and writes.
  Tensor given;
  models::Told told;
  Tensor answer;
  DeviceGraph graph;
};

ReplayedRollout::ReplayedRollout(models::FieldForecaster& model,
                                 const Runtime& runtime)
    : model_(model), possible_(DeviceGraph::possible(runtime)) {}
ReplayedRollout::~ReplayedRollout() = default;

ReplayedRollout::Kept& ReplayedRollout::kept_for(const Tensor& given,
                                                 const models::Told& told,
                                                 int64_t steps) {
  auto shape = given.sizes().vec();
  shape.push_back(steps);
  auto found = kept_.find(shape);
  if (found == kept_.end()) {
    if (kept_.size() == kMostShapes) kept_.clear();
    found = kept_
                .emplace(std::move(shape),
                         std::make_unique<Kept>(model_, given, told, steps))
                .first;
  }
  return *found->second;
}

Tensor ReplayedRollout::operator()(
    const Tensor& given, const models::Told& told, int64_t steps,
    const std::function<void(int64_t)>& progress) {
  if (!possible_ || given.numel() > kFewNumbers) {
    return model_.rollout(given, told, steps, progress);
  }
  const std::scoped_lock lock(mutex_);
  const auto answer = kept_for(given, told, steps).run(given, told);
  if (progress) progress(steps);
  return answer;
}

}  // namespace propagator::tasks
