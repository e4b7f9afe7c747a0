#include "propagator/kernels/plate_loss.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <vector>

#include "propagator/kernels/cuda.h"

namespace propagator::kernels {
namespace {

using torch::indexing::Slice;

constexpr int64_t kChunk = 32;  // frames of one unit of parallel work

// The field's shape and, for each term, weight over count.
struct Shape {
  int64_t frames, rows, cols, visible;
  double mse, physics, initial, side, lid;  // side: left, right; lid: top, …
};

using Sums = std::array<double, 4>;

template <class Real>
struct Case {
  const Real* prediction;
  const Real* truth;
  Real* gradient;
  Real rate, kx, ky;
};

// The residual of frame n into `r`, a frame with a ring of zeros around it
// and zeros on its own boundary nodes.
template <class Real>
double residual(const Case<Real>& c, const Shape& s, int64_t n, Real* r) {
  const int64_t stride = s.cols + 2;
  const Real* p = c.prediction + n * s.rows * s.cols;
  const Real* next = p + s.rows * s.cols;
  double sum = 0;
  for (int64_t j = 1; j + 1 < s.rows; ++j) {
    Real* out = r + (j + 1) * stride + 1;
    Real row_sum = 0;
    for (int64_t i = 1; i + 1 < s.cols; ++i) {
      const int64_t at = j * s.cols + i;
      const Real lap_x = p[at + 1] - 2 * p[at] + p[at - 1];
      const Real lap_y = p[at + s.cols] - 2 * p[at] + p[at - s.cols];
      out[i] = c.rate * (next[at] - p[at]) - c.kx * lap_x - c.ky * lap_y;
      row_sum += out[i] * out[i];
    }
    sum += row_sum;
  }
  return sum;
}

// Frames [begin, end) of one case: their share of the sums, their gradient.
template <class Real>
Sums plate_loss_chunk(const Case<Real>& c, const Shape& s, int64_t begin,
                      int64_t end) {
  const int64_t nodes = s.rows * s.cols, stride = s.cols + 2;
  std::vector<Real> buffers(2 * (s.rows + 2) * stride, Real(0));
  Real* before = buffers.data();
  Real* now = before + (s.rows + 2) * stride;
  if (begin > 0) residual(c, s, begin - 1, before);
  Sums sums{};
  for (int64_t n = begin; n < end; ++n) {
    const bool has_residual = n + 1 < s.frames;
    if (has_residual) {
      sums[1] += residual(c, s, n, now);
    } else {
      std::fill(now, now + (s.rows + 2) * stride, Real(0));
    }
    const Real* p = c.prediction + n * nodes;
    const Real* t = c.truth + n * nodes;
    Real* g = c.gradient + n * nodes;
    const bool initial = n < s.visible;
    const Real inside = 2 * (s.mse + (initial ? s.initial : 0));
    const Real scale = 2 * s.physics;
    const Real centre = -c.rate + 2 * c.kx + 2 * c.ky;
    double frame_sum = 0, side_sum = 0, lid_sum = 0;
    for (int64_t j = 0; j < s.rows; ++j) {
      const Real* r = now + (j + 1) * stride + 1;
      const Real* rb = before + (j + 1) * stride + 1;
      const bool lid = j == 0 || j + 1 == s.rows;
      const Real weight = inside + (lid ? 2 * s.lid : 0);
      Real row_sum = 0;
      for (int64_t i = 0; i < s.cols; ++i) {
        const int64_t at = j * s.cols + i;
        const Real e = p[at] - t[at];
        row_sum += e * e;
        g[at] =
            weight * e +
            scale * (centre * r[i] - c.kx * (r[i - 1] + r[i + 1]) -
                     c.ky * (r[i - stride] + r[i + stride]) + c.rate * rb[i]);
      }
      frame_sum += row_sum;
      if (lid) lid_sum += row_sum;
      for (const int64_t i : {int64_t{0}, s.cols - 1}) {
        const int64_t at = j * s.cols + i;
        const Real e = p[at] - t[at];
        side_sum += e * e;
        g[at] += static_cast<Real>(2 * s.side) * e;
      }
    }
    sums[0] += frame_sum;
    sums[2] += side_sum / static_cast<double>(s.rows) +
               lid_sum / static_cast<double>(s.cols);
    if (initial) sums[3] += frame_sum;
    std::swap(before, now);
  }
  return sums;
}

struct FusedPlateLoss : torch::autograd::Function<FusedPlateLoss> {
  static torch::autograd::variable_list forward(
      torch::autograd::AutogradContext* context, torch::Tensor prediction,
      torch::Tensor truth, torch::Tensor rate, torch::Tensor kx,
      torch::Tensor ky, int64_t visible, double mse, double physics,
      double boundary, double initial) {
    if (prediction.is_cuda()) {
      const auto loss =
          plate_loss_cuda({prediction, truth, rate, kx, ky, visible},
                          {mse, physics, boundary, initial});
      context->save_for_backward({loss.gradient});
      context->mark_non_differentiable({loss.terms});
      return {loss.total, loss.terms};
    }
    const int64_t batch = prediction.size(0), frames = prediction.size(1);
    const int64_t rows = prediction.size(2), cols = prediction.size(3);
    const auto count = [&](int64_t n) {
      return static_cast<double>(batch * n);
    };
    const std::array<double, 4> counts{
        count(frames * rows * cols),
        count((frames - 1) * (rows - 2) * (cols - 2)), count(frames),
        count(visible * rows * cols)};
    const Shape shape{frames,
                      rows,
                      cols,
                      visible,
                      mse / counts[0],
                      physics / counts[1],
                      initial / counts[3],
                      boundary / (counts[2] * static_cast<double>(rows)),
                      boundary / (counts[2] * static_cast<double>(cols))};
    const int64_t chunks = (frames + kChunk - 1) / kChunk;
    std::vector<Sums> partial(batch * chunks);
    auto gradient = torch::empty_like(prediction);
    AT_DISPATCH_FLOATING_TYPES(prediction.scalar_type(), "plate_loss", [&] {
      const int64_t size = frames * rows * cols;
      at::parallel_for(0, batch * chunks, 1, [&](int64_t from, int64_t to) {
        for (int64_t unit = from; unit < to; ++unit) {
          const int64_t b = unit / chunks, first = unit % chunks * kChunk;
          const Case<scalar_t> one{prediction.data_ptr<scalar_t>() + b * size,
                                   truth.data_ptr<scalar_t>() + b * size,
                                   gradient.data_ptr<scalar_t>() + b * size,
                                   rate.data_ptr<scalar_t>()[b],
                                   kx.data_ptr<scalar_t>()[b],
                                   ky.data_ptr<scalar_t>()[b]};
          partial[unit] = plate_loss_chunk(one, shape, first,
                                           std::min(first + kChunk, frames));
        }
      });
    });
    Sums terms{};
    for (const auto& sums : partial) {
      for (size_t k = 0; k < terms.size(); ++k) terms[k] += sums[k] / counts[k];
    }
    context->save_for_backward({gradient});
    const auto total = mse * terms[0] + physics * terms[1] +
                       boundary * terms[2] + initial * terms[3];
    auto values = torch::tensor(std::vector<double>(terms.begin(), terms.end()),
                                torch::kFloat64);
    context->mark_non_differentiable({values});
    return {torch::tensor(total, prediction.options().requires_grad(false)),
            values};
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      torch::autograd::variable_list upstream) {
    torch::autograd::variable_list gradients(10);
    gradients[0] = context->get_saved_variables()[0] * upstream[0];
    return gradients;
  }
};

torch::Tensor mean_square(const torch::Tensor& x) { return x.square().mean(); }

}  // namespace

PlateLoss plate_loss(const PlateLossInputs& in,
                     const PlateLossWeights& weights) {
  const auto& p = in.prediction;
  const bool fused = (p.is_cpu() || (p.is_cuda() && plate_loss_cuda_fits(p))) &&
                     (p.scalar_type() == torch::kFloat32 ||
                      p.scalar_type() == torch::kFloat64);
  if (!fused) return plate_loss_reference(in, weights);
  const auto values = FusedPlateLoss::apply(
      in.prediction.contiguous(), in.truth.contiguous(), in.rate.contiguous(),
      in.kx.contiguous(), in.ky.contiguous(), in.visible, weights.mse,
      weights.physics, weights.boundary, weights.initial);
  return {values[0], values[1]};
}

PlateLoss plate_loss_reference(const PlateLossInputs& in,
                               const PlateLossWeights& weights,
                               bool normalised) {
  const auto p = in.prediction.to(in.truth.scalar_type());
  const auto e = p - in.truth;
  const auto now = p.slice(1, 0, -1);
  const auto inner = now.index({Slice(), Slice(), Slice(1, -1), Slice(1, -1)});
  const auto next = p.index({Slice(), Slice(1), Slice(1, -1), Slice(1, -1)});
  const auto lap_x = now.index({Slice(), Slice(), Slice(1, -1), Slice(2)}) -
                     2 * inner +
                     now.index({Slice(), Slice(), Slice(1, -1), Slice(0, -2)});
  const auto lap_y = now.index({Slice(), Slice(), Slice(2), Slice(1, -1)}) -
                     2 * inner +
                     now.index({Slice(), Slice(), Slice(0, -2), Slice(1, -1)});
  const auto per_case = [](const torch::Tensor& x) {
    return x.view({-1, 1, 1, 1});
  };
  auto r = per_case(in.rate) * (next - inner) - per_case(in.kx) * lap_x -
           per_case(in.ky) * lap_y;
  if (normalised) r = r / (r.var(/*unbiased=*/false) + 1e-8).sqrt();
  const auto mse = mean_square(e);
  const auto physics = mean_square(r);
  const auto boundary =
      mean_square(e.select(3, 0)) + mean_square(e.select(3, -1)) +
      mean_square(e.select(2, 0)) + mean_square(e.select(2, -1));
  const auto initial = mean_square(e.slice(1, 0, in.visible));
  const auto total = weights.mse * mse + weights.physics * physics +
                     weights.boundary * boundary + weights.initial * initial;
  return {total, torch::stack({mse, physics, boundary, initial}).detach()};
}

}  // namespace propagator::kernels
