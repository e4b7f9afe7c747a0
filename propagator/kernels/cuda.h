#pragma once

#include "propagator/kernels/adam.h"
#include "propagator/kernels/affine_flow.h"
#include "propagator/kernels/encoder/causal_attention.h"
#include "propagator/kernels/encoder/collapse.h"
#include "propagator/kernels/encoder/layer_norm.h"
#include "propagator/kernels/greens/green_attention.h"
#include "propagator/kernels/jet/jet_attention.h"
#include "propagator/kernels/jet/jet_cross_attention.h"
#include "propagator/kernels/jet/jet_film.h"
#include "propagator/kernels/jet/jet_scan.h"
#include "propagator/kernels/jet/jet_wavelet.h"
#include "propagator/kernels/plate_loss.h"
#include "propagator/kernels/product.h"

namespace propagator::kernels {

// The CUDA side of the fused operators: the same contracts as in their own
// headers, for tensors on a CUDA device. cuda.cpp, green_cuda.cpp, jet_cuda.cpp
// and masked_cuda.cpp unpack tensors and call the .cu files, which know
// pointers and a stream and no libtorch; product_cuda.cpp calls the product
// library. In a build without CUDA no_cuda.cpp takes their place and says that
// there is nothing to call.
torch::Tensor adam_cuda(torch::Tensor w, const torch::Tensor& grad,
                        torch::Tensor m, torch::Tensor v, const AdamStep& step,
                        const torch::Tensor& varying,
                        const GradientScale& scale);

// All tensors contiguous and without a graph.
struct FlowRows {
  torch::Tensor x, given;
  std::vector<FlowMapWeights> maps;
  double most;
};
struct FlowForward {
  torch::Tensor value, log_slope;
  torch::Tensor saved;  // for the backward pass, if it is kept
};
bool affine_flow_cuda_has(int64_t maps, int64_t layers);
FlowForward affine_flow_cuda(const FlowRows& in, bool keeps);
// Of x, given (undefined unless asked for) and, map by map, the layers, shift
// and log_scale.
std::vector<torch::Tensor> affine_flow_backward_cuda(
    const FlowRows& in, const torch::Tensor& saved, const torch::Tensor& du,
    const torch::Tensor& dlog_slope, bool of_given);

void column_sums_cuda(torch::Tensor out, const torch::Tensor& a, bool adds);
void relu_backward_cuda(torch::Tensor dy, const torch::Tensor& y,
                        torch::Tensor dbias, Beside& beside);

bool cached_attention_cuda_has_depth(int64_t depth);
torch::Tensor cached_attention_cuda(const torch::Tensor& q,
                                    const torch::Tensor& keys,
                                    const torch::Tensor& values,
                                    int64_t length);

bool causal_attention_cuda_has_depth(int64_t depth);
PackedAttention packed_causal_attention_cuda(const torch::Tensor& qkv,
                                             int64_t heads, int64_t prefix,
                                             bool sees_itself);
torch::Tensor packed_causal_attention_backward_cuda(
    const torch::Tensor& grad, const torch::Tensor& qkv,
    const PackedAttention& forward, int64_t heads, int64_t prefix,
    bool sees_itself);

Collapsed collapse_cuda(const torch::Tensor& w, const torch::Tensor& encoding);
void collapse_backward_cuda(torch::Tensor dw, const torch::Tensor& dweight,
                            const torch::Tensor& doffset,
                            const torch::Tensor& encoding);

bool green_attention_cuda_fits(const torch::Tensor& q);
GreenForward green_attention_cuda(const GreenInputs& in);
GreenGradients green_attention_backward_cuda(const torch::Tensor& grad,
                                             const GreenInputs& in,
                                             const GreenForward& forward);

struct JetAttentionGradients {
  torch::Tensor q, kv;
};
bool jet_attention_cuda_fits(const torch::Tensor& q, int64_t heads,
                             const JetOrders& orders);
// A bias without elements is none.
torch::Tensor jet_attention_cuda(const torch::Tensor& q,
                                 const torch::Tensor& kv,
                                 const torch::Tensor& bias, int64_t heads,
                                 const JetOrders& orders);
JetAttentionGradients jet_attention_backward_cuda(
    const torch::Tensor& q, const torch::Tensor& kv, const torch::Tensor& bias,
    const torch::Tensor& grad, int64_t heads, const JetOrders& orders);

struct JetCrossGradients {
  torch::Tensor q, k, v;
};
bool jet_cross_attention_cuda_fits(const torch::Tensor& q, int64_t depth,
                                   const JetOrders& orders);
// Writes `out`, as q, and `sums`, (N, H, M), for the backward pass.
void jet_cross_attention_cuda(const torch::Tensor& q, const torch::Tensor& k,
                              const torch::Tensor& v, const JetOrders& orders,
                              const torch::Tensor& out,
                              const torch::Tensor& sums);
JetCrossGradients jet_cross_attention_backward_cuda(
    const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
    const torch::Tensor& out, const torch::Tensor& sums,
    const torch::Tensor& grad, const JetOrders& orders);

torch::Tensor jet_film_cuda(const torch::Tensor& x, const torch::Tensor& film,
                            double w0, const JetOrders& orders);
// Writes `dx` and `dfilm`.
void jet_film_backward_cuda(const torch::Tensor& x, const torch::Tensor& film,
                            double w0, const JetOrders& orders,
                            const torch::Tensor& dy, const torch::Tensor& dx,
                            const torch::Tensor& dfilm);

torch::Tensor jet_scan_cuda(const JetScanInputs& in, const JetOrders& orders);
JetScanInputs jet_scan_backward_cuda(const JetScanInputs& in,
                                     const torch::Tensor& grad,
                                     const JetOrders& orders);

torch::Tensor jet_wavelet_cuda(const torch::Tensor& rows,
                               const torch::Tensor& w1, const torch::Tensor& w2,
                               const JetOrders& orders);
WaveletWeightGradients jet_wavelet_backward_cuda(
    const torch::Tensor& rows, const torch::Tensor& grad,
    const torch::Tensor& w1, const torch::Tensor& w2, const JetOrders& orders,
    torch::Tensor dx, torch::Tensor values);

// A layer of waves that ends in one number for each token, without the waves in
// memory: rows (M, …, width), contiguous, weight (1, width).
bool jet_wavelet_dot_cuda_fits(const torch::Tensor& rows,
                               const torch::Tensor& weight);
torch::Tensor jet_wavelet_dot_cuda(const torch::Tensor& rows,
                                   const torch::Tensor& w1,
                                   const torch::Tensor& w2,
                                   const torch::Tensor& weight,
                                   const torch::Tensor& bias,
                                   const JetOrders& orders);
struct WaveletDotGradients {
  torch::Tensor rows, weight, bias;
  WaveletWeightGradients waves;
};
WaveletDotGradients jet_wavelet_dot_backward_cuda(const torch::Tensor& rows,
                                                  const torch::Tensor& grad,
                                                  const torch::Tensor& w1,
                                                  const torch::Tensor& w2,
                                                  const torch::Tensor& weight,
                                                  const JetOrders& orders);

// Tokens as `rows`, as wide as a layer of this weight (out, in) makes them; not
// filled.
inline torch::Tensor empty_output(const torch::Tensor& rows,
                                  const torch::Tensor& weight) {
  auto shape = rows.sizes().vec();
  shape.back() = weight.size(0);
  return torch::empty(shape, rows.options());
}

// jet_linear of narrow tokens, contiguous.
struct JetLinearGradients {
  torch::Tensor rows, weight, bias;  // rows: undefined if not asked for
};
bool small_jet_linear_cuda_fits(const torch::Tensor& rows,
                                const torch::Tensor& weight);
torch::Tensor small_jet_linear_cuda(const torch::Tensor& rows,
                                    const torch::Tensor& weight,
                                    const torch::Tensor& bias);
JetLinearGradients small_jet_linear_backward_cuda(const torch::Tensor& rows,
                                                  const torch::Tensor& grad,
                                                  const torch::Tensor& weight,
                                                  bool of_rows);

LayerNormed layer_norm_cuda(const torch::Tensor& x, const torch::Tensor& weight,
                            const torch::Tensor& bias, double eps);
torch::Tensor layer_norm_backward_cuda(
    const torch::Tensor& dy, const torch::Tensor& x, const LayerNormed& forward,
    const torch::Tensor& weight, const torch::Tensor& residual,
    torch::Tensor dweight, torch::Tensor dbias, Beside& beside);

// masked_mlp of contiguous tensors in float32.
struct MaskedForward {
  torch::Tensor y;
  torch::Tensor saved;  // for the backward pass, if it is kept
};
bool masked_mlp_cuda_has(int64_t layers);
MaskedForward masked_mlp_cuda(const torch::Tensor& x,
                              const std::vector<torch::Tensor>& layers,
                              bool keeps);
// Of x (undefined unless asked for) and of the layers.
std::vector<torch::Tensor> masked_mlp_backward_cuda(
    const torch::Tensor& x, const std::vector<torch::Tensor>& layers,
    const torch::Tensor& saved, const torch::Tensor& dy, bool of_x);

// The gradient by the prediction, the four terms in float64, the total.
struct PlateLossGradient {
  torch::Tensor gradient, terms, total;
};
bool plate_loss_cuda_fits(const torch::Tensor& prediction);
PlateLossGradient plate_loss_cuda(const PlateLossInputs& in,
                                  const PlateLossWeights& weights);

void prefix_softmax_cuda(torch::Tensor scores, int64_t heads);
void prefix_softmax_backward_cuda(torch::Tensor dw, const torch::Tensor& w,
                                  int64_t heads);

void product_cuda(torch::Tensor out, const torch::Tensor& a,
                  const torch::Tensor& b, const ProductOptions& options);

}  // namespace propagator::kernels
