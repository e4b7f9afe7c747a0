#include <ATen/cuda/CUDAContext.h>
#include <cublasLt.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <optional>

#include "propagator/core/error.h"
#include "propagator/core/torch_compat.h"
#include "propagator/kernels/cuda.h"

namespace propagator::kernels {
namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;

void check(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw DeviceError(fmt::format("[product] cuBLAS says {}",
                                  cublasLtGetStatusString(status)));
  }
}

// Owns one of cuBLAS's descriptors.
template <class Handle, cublasStatus_t (*kDestroy)(Handle)>
struct Owned {
  Handle handle = nullptr;
  Owned() = default;
  Owned(const Owned&) = delete;
  ~Owned() { kDestroy(handle); }
  operator Handle() const { return handle; }
};
using Operation = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference =
    Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

// A row-major matrix (rows, cols), which cuBLAS sees as its column-major
// transpose; `transposed` if its memory is that of the transpose.
struct Matrix {
  int64_t rows, cols, leading, batch, batch_stride;
  bool transposed;
  void* data;

  explicit Matrix(const torch::Tensor& x)
      : rows(x.size(-2)),
        cols(x.size(-1)),
        batch(x.dim() == 3 ? x.size(0) : 1),
        batch_stride(x.dim() == 3 ? x.stride(0) : 0),
        transposed(x.stride(-1) != 1 && x.size(-1) != 1),
        data(x.data_ptr()) {
    leading = transposed ? x.stride(-1) : x.stride(-2);
    const int64_t least = transposed ? rows : cols;
    if ((transposed && x.stride(-2) != 1 && rows != 1) ||
        (leading < least && (transposed ? cols : rows) > 1)) {
      throw UsageError("[product] expected a matrix with a stride of 1");
    }
    leading = std::max(leading, least);
  }

  uint32_t alignment() const {
    uint32_t bytes = 256;
    while (reinterpret_cast<uintptr_t>(data) % bytes != 0) bytes /= 2;
    return bytes;
  }
  // What decides the choice of an algorithm.
  void append_to(std::vector<int64_t>& key) const {
    key.insert(key.end(), {rows, cols, leading, batch_stride, transposed,
                           static_cast<int64_t>(alignment())});
  }
  void describe(Layout& layout) const {
    check(cublasLtMatrixLayoutCreate(&layout.handle, CUDA_R_32F,
                                     transposed ? rows : cols,
                                     transposed ? cols : rows, leading));
    const auto count = static_cast<int32_t>(batch);
    check(cublasLtMatrixLayoutSetAttribute(
        layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
    check(cublasLtMatrixLayoutSetAttribute(
        layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &batch_stride,
        sizeof batch_stride));
  }
};

template <class Value>
void set(Operation& operation, cublasLtMatmulDescAttributes_t attribute,
         const Value& value) {
  check(cublasLtMatmulDescSetAttribute(operation, attribute, &value,
                                       sizeof value));
}

cublasLtEpilogue_t epilogue_of(const ProductOptions& o) {
  if (o.bias.defined()) {
    return o.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
  }
  return o.relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT;
}

// One for each stream, since products on two streams may overlap.
void* workspace_of(const c10::cuda::CUDAStream& stream) {
  static std::mutex mutex;
  static std::map<cudaStream_t, torch::Tensor> workspaces;
  const std::lock_guard lock(mutex);
  auto& space = workspaces[stream.stream()];
  if (!space.defined()) {
    space = torch::empty(
        {static_cast<int64_t>(kWorkspaceBytes)},
        torch::TensorOptions(torch::kUInt8).device(stream.device()));
  }
  return space.data_ptr();
}

// The library's own choice for a shape, asked for once.
cublasLtMatmulAlgo_t algorithm_for(
    const std::vector<int64_t>& key,
    const std::function<cublasLtMatmulAlgo_t()>& ask) {
  static std::mutex mutex;
  static std::map<std::vector<int64_t>, cublasLtMatmulAlgo_t> chosen;
  const std::lock_guard lock(mutex);
  const auto found = chosen.find(key);
  return found != chosen.end() ? found->second
                               : chosen.emplace(key, ask()).first->second;
}

}  // namespace

// Row-major out = a b is column-major outᵀ = bᵀ aᵀ: cuBLAS's first operand is
// our b, and its rows are our columns.
void product_cuda(torch::Tensor out, const torch::Tensor& a,
                  const torch::Tensor& b, const ProductOptions& o) {
  if (out.scalar_type() != torch::kFloat32) {
    out.copy_(product_reference(a, b, o));
    return;
  }
  if (out.stride(-1) != 1) {  // the transpose is the same work
    if (o.bias.defined()) {
      throw UsageError("[product] a transposed result has no bias");
    }
    auto options = o;
    if (o.add.defined()) options.add = o.add.transpose(-2, -1);
    product_cuda(out.transpose(-2, -1), b.transpose(-2, -1),
                 a.transpose(-2, -1), options);
    return;
  }
  const Matrix first(b), second(a), result(out);
  const Matrix added(o.add.defined() ? o.add : out);
  const auto compute =
      tf32_is_on() ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  const auto epilogue = epilogue_of(o);
  Operation operation;
  check(cublasLtMatmulDescCreate(&operation.handle, compute, CUDA_R_32F));
  const auto transpose = [](const Matrix& m) {
    return m.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, transpose(first));
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, transpose(second));
  set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
  if (o.bias.defined()) {
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
        static_cast<const void*>(o.bias.data_ptr()));
  }
  Layout layouts[4];
  first.describe(layouts[0]);
  second.describe(layouts[1]);
  added.describe(layouts[2]);
  result.describe(layouts[3]);

  const auto handle = at::cuda::getCurrentCUDABlasLtHandle();
  const auto ask = [&] {
    Preference preference;
    check(cublasLtMatmulPreferenceCreate(&preference.handle));
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute,
                            const auto& value) {
      check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value,
                                                 sizeof value));
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, first.alignment());
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, second.alignment());
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, added.alignment());
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, result.alignment());
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    check(cublasLtMatmulAlgoGetHeuristic(handle, operation, layouts[0],
                                         layouts[1], layouts[2], layouts[3],
                                         preference, 1, &best, &found));
    if (found == 0) {
      throw DeviceError("[product] cuBLAS has no algorithm for this shape");
    }
    return best.algo;
  };
  std::vector<int64_t> key{compute, epilogue, o.add.defined(), result.batch};
  for (const auto* m : {&first, &second, &added, &result}) m->append_to(key);
  const auto algorithm = algorithm_for(key, ask);

  const auto alpha = static_cast<float>(o.scale);
  const float beta = o.add.defined() ? 1 : 0;
  const auto stream = at::cuda::getCurrentCUDAStream();
  check(cublasLtMatmul(handle, operation, &alpha, first.data, layouts[0],
                       second.data, layouts[1], &beta, added.data, layouts[2],
                       result.data, layouts[3], &algorithm,
                       workspace_of(stream), kWorkspaceBytes, stream));
}

}  // namespace propagator::kernels
