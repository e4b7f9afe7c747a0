#include "propagator/core/error.h"
#include "propagator/train/step_graph.h"

namespace propagator::train {

struct StepGraph::Captured {};

StepGraph::StepGraph(std::function<void()> work) : work_(std::move(work)) {}
StepGraph::~StepGraph() = default;

bool StepGraph::possible(const Runtime&) { return false; }

void StepGraph::run() { throw DeviceError("[graph] this build has no CUDA"); }

}  // namespace propagator::train
