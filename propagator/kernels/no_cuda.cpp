#include "propagator/core/error.h"
#include "propagator/kernels/cuda.h"

namespace propagator::kernels {
namespace {

// No tensor is on a CUDA device in such a build, so nobody comes here.
[[noreturn]] void no_cuda() {
  throw DeviceError("[kernels] this build has no CUDA");
}

}  // namespace

torch::Tensor adam_cuda(torch::Tensor, const torch::Tensor&, torch::Tensor,
                        torch::Tensor, const AdamStep&, const torch::Tensor&,
                        const GradientScale&) {
  no_cuda();
}
bool affine_flow_cuda_has(int64_t, int64_t) { return false; }
FlowForward affine_flow_cuda(const FlowRows&, bool) { no_cuda(); }
std::vector<torch::Tensor> affine_flow_backward_cuda(const FlowRows&,
                                                     const torch::Tensor&,
                                                     const torch::Tensor&,
                                                     const torch::Tensor&,
                                                     bool) {
  no_cuda();
}
void column_sums_cuda(torch::Tensor, const torch::Tensor&, bool) { no_cuda(); }
void relu_backward_cuda(torch::Tensor, const torch::Tensor&, torch::Tensor,
                        Beside&) {
  no_cuda();
}
bool cached_attention_cuda_has_depth(int64_t) { return false; }
torch::Tensor cached_attention_cuda(const torch::Tensor&, const torch::Tensor&,
                                    const torch::Tensor&, int64_t) {
  no_cuda();
}
bool causal_attention_cuda_has_depth(int64_t) { return false; }
PackedAttention packed_causal_attention_cuda(const torch::Tensor&, int64_t,
                                             int64_t, bool) {
  no_cuda();
}
torch::Tensor packed_causal_attention_backward_cuda(const torch::Tensor&,
                                                    const torch::Tensor&,
                                                    const PackedAttention&,
                                                    int64_t, int64_t, bool) {
  no_cuda();
}
Collapsed collapse_cuda(const torch::Tensor&, const torch::Tensor&) {
  no_cuda();
}
void collapse_backward_cuda(torch::Tensor, const torch::Tensor&,
                            const torch::Tensor&, const torch::Tensor&) {
  no_cuda();
}
bool green_attention_cuda_fits(const torch::Tensor&) { return false; }
GreenForward green_attention_cuda(const GreenInputs&) { no_cuda(); }
GreenGradients green_attention_backward_cuda(const torch::Tensor&,
                                             const GreenInputs&,
                                             const GreenForward&) {
  no_cuda();
}
bool jet_attention_cuda_fits(const torch::Tensor&, int64_t, const JetOrders&) {
  return false;
}
torch::Tensor jet_attention_cuda(const torch::Tensor&, const torch::Tensor&,
                                 const torch::Tensor&, int64_t,
                                 const JetOrders&) {
  no_cuda();
}
JetAttentionGradients jet_attention_backward_cuda(const torch::Tensor&,
                                                  const torch::Tensor&,
                                                  const torch::Tensor&,
                                                  const torch::Tensor&, int64_t,
                                                  const JetOrders&) {
  no_cuda();
}
bool jet_cross_attention_cuda_fits(const torch::Tensor&, int64_t,
                                   const JetOrders&) {
  return false;
}
void jet_cross_attention_cuda(const torch::Tensor&, const torch::Tensor&,
                              const torch::Tensor&, const JetOrders&,
                              const torch::Tensor&, const torch::Tensor&) {
  no_cuda();
}
JetCrossGradients jet_cross_attention_backward_cuda(
    const torch::Tensor&, const torch::Tensor&, const torch::Tensor&,
    const torch::Tensor&, const torch::Tensor&, const torch::Tensor&,
    const JetOrders&) {
  no_cuda();
}
torch::Tensor jet_film_cuda(const torch::Tensor&, const torch::Tensor&, double,
                            const JetOrders&) {
  no_cuda();
}
void jet_film_backward_cuda(const torch::Tensor&, const torch::Tensor&, double,
                            const JetOrders&, const torch::Tensor&,
                            const torch::Tensor&, const torch::Tensor&) {
  no_cuda();
}
torch::Tensor jet_scan_cuda(const JetScanInputs&, const JetOrders&) {
  no_cuda();
}
JetScanInputs jet_scan_backward_cuda(const JetScanInputs&, const torch::Tensor&,
                                     const JetOrders&) {
  no_cuda();
}
torch::Tensor jet_wavelet_cuda(const torch::Tensor&, const torch::Tensor&,
                               const torch::Tensor&, const JetOrders&) {
  no_cuda();
}
WaveletWeightGradients jet_wavelet_backward_cuda(
    const torch::Tensor&, const torch::Tensor&, const torch::Tensor&,
    const torch::Tensor&, const JetOrders&, torch::Tensor, torch::Tensor) {
  no_cuda();
}
bool jet_wavelet_dot_cuda_fits(const torch::Tensor&, const torch::Tensor&) {
  return false;
}
torch::Tensor jet_wavelet_dot_cuda(const torch::Tensor&, const torch::Tensor&,
                                   const torch::Tensor&, const torch::Tensor&,
                                   const torch::Tensor&, const JetOrders&) {
  no_cuda();
}
WaveletDotGradients jet_wavelet_dot_backward_cuda(
    const torch::Tensor&, const torch::Tensor&, const torch::Tensor&,
    const torch::Tensor&, const torch::Tensor&, const JetOrders&) {
  no_cuda();
}
bool small_jet_linear_cuda_fits(const torch::Tensor&, const torch::Tensor&) {
  return false;
}
torch::Tensor small_jet_linear_cuda(const torch::Tensor&, const torch::Tensor&,
                                    const torch::Tensor&) {
  no_cuda();
}
JetLinearGradients small_jet_linear_backward_cuda(const torch::Tensor&,
                                                  const torch::Tensor&,
                                                  const torch::Tensor&, bool) {
  no_cuda();
}
LayerNormed layer_norm_cuda(const torch::Tensor&, const torch::Tensor&,
                            const torch::Tensor&, double) {
  no_cuda();
}
torch::Tensor layer_norm_backward_cuda(const torch::Tensor&,
                                       const torch::Tensor&, const LayerNormed&,
                                       const torch::Tensor&,
                                       const torch::Tensor&, torch::Tensor,
                                       torch::Tensor, Beside&) {
  no_cuda();
}
bool masked_mlp_cuda_has(int64_t) { return false; }
MaskedForward masked_mlp_cuda(const torch::Tensor&,
                              const std::vector<torch::Tensor>&, bool) {
  no_cuda();
}
std::vector<torch::Tensor> masked_mlp_backward_cuda(
    const torch::Tensor&, const std::vector<torch::Tensor>&,
    const torch::Tensor&, const torch::Tensor&, bool) {
  no_cuda();
}
bool plate_loss_cuda_fits(const torch::Tensor&) { return false; }
PlateLossGradient plate_loss_cuda(const PlateLossInputs&,
                                  const PlateLossWeights&) {
  no_cuda();
}
void prefix_softmax_cuda(torch::Tensor, int64_t) { no_cuda(); }
void prefix_softmax_backward_cuda(torch::Tensor, const torch::Tensor&,
                                  int64_t) {
  no_cuda();
}
void product_cuda(torch::Tensor, const torch::Tensor&, const torch::Tensor&,
                  const ProductOptions&) {
  no_cuda();
}

}  // namespace propagator::kernels
