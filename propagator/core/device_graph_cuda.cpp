#include "propagator/core/device_graph.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>

namespace propagator {
namespace {

constexpr int kCallsBeforeCapture = 3;

}  // namespace

struct DeviceGraph::Captured {
  at::cuda::CUDAGraph graph;
  // Capture needs a stream of its own, and so do the calls before it, whose
  // buffers it takes over.
  c10::cuda::CUDAStream stream = at::cuda::getStreamFromPool();
};

DeviceGraph::DeviceGraph(std::function<void()> work)
    : work_(std::move(work)), captured_(std::make_unique<Captured>()) {}
DeviceGraph::~DeviceGraph() = default;

void DeviceGraph::forget() {
  captured_ = std::make_unique<Captured>();
  calls_ = 0;
}

bool DeviceGraph::possible(const Runtime& runtime) {
  return runtime.device.is_cuda();
}

void DeviceGraph::run() {
  auto& [graph, stream] = *captured_;
  const auto outside = at::cuda::getCurrentCUDAStream();
  at::cuda::CUDAEvent before, after;
  before.record(outside);
  before.block(stream);
  {
    const c10::cuda::CUDAStreamGuard guard(stream);
    if (calls_ < kCallsBeforeCapture) {
      work_();
    } else {
      if (calls_ == kCallsBeforeCapture) {
        graph.capture_begin();
        work_();
        graph.capture_end();
      }
      graph.replay();
    }
    ++calls_;
    after.record(stream);
  }
  after.block(outside);
}

}  // namespace propagator
