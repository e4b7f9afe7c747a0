#pragma once

#include <torch/types.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <vector>

namespace propagator::kernels {

// A second stream on a CUDA device, for work that what follows does not wait
// for. On the CPU the work is done at once.
class Beside {
 public:
  explicit Beside(const torch::Device& device);
  ~Beside();

  // Enqueues `work` after everything enqueued so far.
  void run(const std::function<void()>& work);
  // What such work reads or writes must live until `join`; this sees to it.
  void keep(std::initializer_list<torch::Tensor> tensors);
  // What is enqueued from now on waits for the work.
  void join();

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;  // none on the CPU
  std::vector<torch::Tensor> kept_;
};

}  // namespace propagator::kernels
