#include "propagator/core/device_graph.h"

#include "propagator/core/error.h"

namespace propagator {

struct DeviceGraph::Captured {};

DeviceGraph::DeviceGraph(std::function<void()> work) : work_(std::move(work)) {}
DeviceGraph::~DeviceGraph() = default;

void DeviceGraph::forget() {}

bool DeviceGraph::possible(const Runtime&) { return false; }

void DeviceGraph::run() { throw DeviceError("[graph] this build has no CUDA"); }

}  // namespace propagator
