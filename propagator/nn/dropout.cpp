#include "propagator/nn/dropout.h"

#include <ATen/Parallel.h>
#include <c10/util/accumulate.h>
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "propagator/core/error.h"
#include "propagator/core/random.h"

namespace propagator::nn {
namespace {

constexpr int64_t kInBlock = 8;  // numbers from one Philox block of 128 bits
constexpr int64_t kAtOnce = kPhiloxLanes * kInBlock;
constexpr int64_t kBlocksAtOnce = 2048;  // of a thread
constexpr double kSteps = 65536;

uint32_t low_word(int64_t x) { return static_cast<uint32_t>(x); }
uint32_t high_word(int64_t x) {
  return static_cast<uint32_t>(static_cast<uint64_t>(x) >> 32);
}

// Block after block the 16 bits of each of its numbers, of each word the lower
// ones first.
std::array<uint16_t, kAtOnce> halves(const PhiloxLanes& words) {
  static_assert(std::endian::native == std::endian::little);
  std::array<uint32_t, kAtOnce / 2> in_order;
  for (int64_t l = 0; l < kPhiloxLanes; ++l) {
    for (int64_t w = 0; w < 4; ++w) in_order[4 * l + w] = words[w][l];
  }
  return std::bit_cast<std::array<uint16_t, kAtOnce>>(in_order);
}

template <class Real>
std::array<Real, kAtOnce> factors_of(const std::array<uint16_t, kAtOnce>& bits,
                                     uint32_t threshold, Real kept) {
  std::array<Real, kAtOnce> factors;
  for (int64_t i = 0; i < kAtOnce; ++i) {
    factors[i] = bits[i] < threshold ? Real(0) : kept;
  }
  return factors;
}

// Eight factors for each of `count / 8` blocks, whose numbers are
// `block_at(0)`, …; of the last one those that are asked for.
template <class Real, class BlockAt>
void fill(Real* out, int64_t count, const int64_t* state, uint32_t threshold,
          BlockAt&& block_at) {
  const int64_t key = state[0], draw = state[1];
  const auto kept = static_cast<Real>(kSteps / (kSteps - threshold));
  const int64_t blocks = (count + kInBlock - 1) / kInBlock;
  at::parallel_for(0, blocks, kBlocksAtOnce, [=](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; b += kPhiloxLanes) {
      PhiloxLanes words;
      for (int64_t l = 0; l < kPhiloxLanes; ++l) {
        const int64_t block = block_at(std::min(b + l, end - 1));
        words[0][l] = low_word(block);
        words[1][l] = high_word(block);
        words[2][l] = low_word(draw);
        words[3][l] = high_word(draw);
      }
      philox(words, {low_word(key), high_word(key)});
      const auto factors = factors_of<Real>(halves(words), threshold, kept);
      const int64_t first = b * kInBlock;
      const int64_t last = std::min(end * kInBlock, count);
      std::copy_n(factors.data(), std::min(kAtOnce, last - first), out + first);
    }
  });
}

// A tensor in the shape of such factors.
template <class BlockAt>
torch::Tensor filled(torch::IntArrayRef shape, torch::ScalarType type,
                     const torch::Tensor& state, uint32_t threshold,
                     BlockAt&& block_at) {
  const auto* numbers = state.data_ptr<int64_t>();
  if (type == torch::kFloat64) {
    auto out = torch::empty(shape, torch::kFloat64);
    fill(out.data_ptr<double>(), out.numel(), numbers, threshold, block_at);
    return out;
  }
  auto out = torch::empty(shape, torch::kFloat32);
  fill(out.data_ptr<float>(), out.numel(), numbers, threshold, block_at);
  return out.to(type);
}

// Words are held in int64: products wrap as they should.
constexpr int64_t kWord = 0xffffffff;
torch::Tensor high(const torch::Tensor& x) {
  return x.bitwise_right_shift(32).bitwise_and(kWord);
}
torch::Tensor low(const torch::Tensor& x) { return x.bitwise_and(kWord); }

}  // namespace

torch::Tensor dropout_factors(const torch::Tensor& state, uint32_t threshold,
                              torch::IntArrayRef shape,
                              const torch::TensorOptions& options) {
  if (!state.is_cpu()) {
    return dropout_factors_reference(state, threshold, shape, options);
  }
  return filled(shape, options.dtype().toScalarType(), state, threshold,
                [](int64_t block) { return block; });
}

torch::Tensor dropout_factors_reference(const torch::Tensor& state,
                                        uint32_t threshold,
                                        torch::IntArrayRef shape,
                                        const torch::TensorOptions& options) {
  const int64_t count = c10::multiply_integers(shape);
  const auto block =
      torch::arange((count + kInBlock - 1) / kInBlock, state.options());
  const auto key = state[0], draw = state[1];
  auto c0 = low(block), c1 = high(block);
  auto c2 = low(draw).expand_as(block), c3 = high(draw).expand_as(block);
  auto k0 = low(key), k1 = high(key);
  for (int round = 0; round < 10; ++round) {
    const auto p0 = c0 * int64_t{0xD2511F53}, p1 = c2 * int64_t{0xCD9E8D57};
    c0 = high(p1).bitwise_xor(c1).bitwise_xor(k0);
    c2 = high(p0).bitwise_xor(c3).bitwise_xor(k1);
    c1 = low(p1);
    c3 = low(p0);
    k0 = low(k0 + int64_t{0x9E3779B9});
    k1 = low(k1 + int64_t{0xBB67AE85});
  }
  const auto words = torch::stack({c0, c1, c2, c3}, 1);
  const auto bits = torch::stack(
      {words.bitwise_and(0xffff), words.bitwise_right_shift(16)}, 2);
  const auto kept = bits.flatten().narrow(0, 0, count).view(shape) >=
                    static_cast<int64_t>(threshold);
  return kept.to(options.dtype()) * (kSteps / (kSteps - threshold));
}

DropoutImpl::DropoutImpl(double rate)
    : threshold_(static_cast<uint32_t>(std::lround(rate * kSteps))) {
  if (!(rate >= 0 && threshold_ < kSteps)) {
    throw UsageError(fmt::format(
        "[dropout] expected a rate of 0 to less than 1, got {}", rate));
  }
  state_ = register_parameter("state", torch::zeros({2}, torch::kInt64),
                              /*requires_grad=*/false);
}

torch::Tensor DropoutImpl::factors(torch::IntArrayRef shape,
                                   const torch::TensorOptions& options) {
  if (changes_nothing()) return {};
  const torch::NoGradGuard no_grad;
  const auto result = dropout_factors(state_, threshold_, shape, options);
  if (state_.is_cpu()) {
    ++state_.data_ptr<int64_t>()[1];
  } else {
    state_[1] += 1;
  }
  return result;
}

torch::Tensor DropoutImpl::factors_of_rows(const torch::Tensor& places,
                                           int64_t width,
                                           torch::ScalarType type) {
  if (changes_nothing()) return {};
  const int64_t blocks = width / kInBlock;  // in a row
  const auto* place = places.data_ptr<int64_t>();
  const auto result = filled(
      {places.size(0), width}, type, state_, threshold_, [&](int64_t block) {
        return place[block / blocks] * blocks + block % blocks;
      });
  ++state_.data_ptr<int64_t>()[1];
  return result;
}

torch::Tensor DropoutImpl::forward(const torch::Tensor& x) {
  const auto f = factors(x.sizes(), x.options());
  return f.defined() ? x * f : x;
}

void DropoutImpl::set_key(int64_t key) {
  const torch::NoGradGuard no_grad;
  state_.copy_(torch::tensor({key, int64_t{0}}, torch::kInt64));
}

void DropoutImpl::set_draws(int64_t draws) {
  const torch::NoGradGuard no_grad;
  state_[1] = draws;
}

void DropoutImpl::to(torch::Device device, torch::Dtype, bool non_blocking) {
  to(device, non_blocking);
}

void DropoutImpl::to(torch::Dtype, bool) {}

void seed_dropouts(torch::nn::Module& module, int64_t seed) {
  constexpr int64_t kKeys = int64_t{1} << 53;
  for (const auto& item : module.named_modules()) {
    if (auto* dropout = item.value()->as<DropoutImpl>()) {
      dropout->set_key(
          RandomStream(seed, "dropout/" + item.key()).below(kKeys, 0, 0));
    }
  }
}

}  // namespace propagator::nn
