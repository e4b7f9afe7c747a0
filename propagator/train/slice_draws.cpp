#include "propagator/train/slice_draws.h"

namespace propagator::train {
namespace {

// More than a slice ever draws. What is drawn by number costs nothing to skip.
constexpr int64_t kRoom = int64_t{1} << 20;

}  // namespace

SliceDraws::SliceDraws(torch::nn::Module& module, int64_t slices)
    : slices_(slices) {
  for (const auto& part : module.modules()) {
    if (auto* dropout = part->as<nn::DropoutImpl>()) {
      dropouts_.push_back(dropout);
    }
  }
  first_.resize(dropouts_.size());
}

void SliceDraws::begin_evaluation() {
  for (size_t n = 0; n < dropouts_.size(); ++n) {
    first_[n] = (dropouts_[n]->draws() + kRoom - 1) / kRoom * kRoom;
  }
}

void SliceDraws::begin_slice(int64_t slice) { go_to(slice); }

void SliceDraws::end_evaluation() { go_to(slices_); }

void SliceDraws::go_to(int64_t slice) {
  for (size_t n = 0; n < dropouts_.size(); ++n) {
    dropouts_[n]->set_draws(first_[n] + slice * kRoom);
  }
}

}  // namespace propagator::train
