#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>

#include "propagator/kernels/beside.h"

namespace propagator::kernels {
namespace {

// The second stream of each device, always the same one.
c10::cuda::CUDAStream side_of(c10::DeviceIndex device) {
  static const auto all = [] {
    std::vector<c10::cuda::CUDAStream> streams;
    for (c10::DeviceIndex d = 0; d < at::cuda::device_count(); ++d) {
      streams.push_back(
          at::cuda::getStreamFromPool(/*isHighPriority=*/false, d));
    }
    return streams;
  }();
  return all.at(static_cast<size_t>(device));
}

// `later` waits for all that is enqueued on `first`.
void order(const c10::cuda::CUDAStream& first,
           const c10::cuda::CUDAStream& later) {
  at::cuda::CUDAEvent event;
  event.record(first);
  event.block(later);
}

}  // namespace

struct Beside::Stream {
  c10::cuda::CUDAStream main, side;
  bool ahead = false;  // whether the side has work that main does not wait for
};

Beside::Beside(const torch::Device& device) {
  if (!device.is_cuda()) return;
  stream_ = std::make_unique<Stream>(Stream{
      at::cuda::getCurrentCUDAStream(device.index()), side_of(device.index())});
}

Beside::~Beside() { join(); }

void Beside::run(const std::function<void()>& work) {
  if (!stream_) {
    work();
    return;
  }
  order(stream_->main, stream_->side);
  stream_->ahead = true;
  const c10::cuda::CUDAStreamGuard guard(stream_->side);
  work();
}

void Beside::keep(std::initializer_list<torch::Tensor> tensors) {
  if (stream_) kept_.insert(kept_.end(), tensors);
}

void Beside::join() {
  if (!stream_ || !stream_->ahead) return;
  order(stream_->side, stream_->main);
  stream_->ahead = false;
  kept_.clear();
}

}  // namespace propagator::kernels
