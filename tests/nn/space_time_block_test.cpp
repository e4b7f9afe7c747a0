#include "propagator/nn/space_time_block.h"

#include <torch/utils.h>

#include <cmath>

#include "propagator/nn/init.h"
#include "testing.h"

namespace propagator::nn {
namespace {

using testing::near;
using testing::random;
using torch::Tensor;

constexpr int64_t kWidth = 8, kHeads = 2, kMemory = 3;

SpaceTimeBlock made_block(int64_t given = 0) {
  SpaceTimeBlock block(SpaceTimeBlockOptions{
      .width = kWidth, .heads = kHeads, .memory = kMemory, .given = given});
  block->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  for (auto& item : block->named_parameters()) {
    item.value().copy_(random(item.value().sizes(), item.key()));
  }
  return block;
}

SpaceTimeAngles angles_of(int64_t frames, int64_t patches) {
  return {3 * random({patches, 2}, "space"), 3 * random({frames, 2}, "time")};
}

SpaceTimeAngles frames_of(const SpaceTimeAngles& all, int64_t first,
                          int64_t count) {
  return {all.space, all.time.narrow(0, first, count)};
}

// Pairs of channels as complex numbers, times e^{i angle}: (T, D / 2).
Tensor turned(const Tensor& x, const Tensor& angles) {
  return torch::view_as_complex(x.reshape({x.size(0), -1, 2}).contiguous()) *
         torch::polar(torch::ones_like(angles), angles);
}

// Of one head of one sequence (T, 3 D): what the last `asked` tokens get, from
// all or from the others alone.
Tensor mixed(const Tensor& qkv, const Tensor& angles, int64_t asked,
             bool others) {
  const auto parts = qkv.chunk(3, -1);
  const auto q = turned(parts[0], angles).narrow(0, qkv.size(0) - asked, asked);
  const auto k = turned(parts[1], angles);
  auto scores = torch::real(torch::matmul(q, k.conj().t()));
  if (others) scores.narrow(1, qkv.size(0) - asked, asked).fill_(-1e300);
  const double depth = static_cast<double>(parts[0].size(1));
  return torch::matmul(torch::softmax(scores / std::sqrt(depth), -1), parts[2]);
}

// The block as its definition has it: sequence by sequence, head by head.
class PlainBlock {
 public:
  explicit PlainBlock(const SpaceTimeBlock& block, int64_t given = 0)
      : given_(given), w_(block->named_parameters()) {}

  Tensor operator()(const Tensor& x, const SpaceTimeAngles& angles) const {
    auto y = x.clone();
    const auto space = qkv(norm(x, "norm1"), "space_qkv.weight");
    for (int64_t b = 0; b < x.size(0); ++b) {
      for (int64_t t = 0; t < x.size(1); ++t) {
        y[b][t] += torch::matmul(heads(space[b][t], angles.space, x.size(2)),
                                 w_["space_output.weight"].t());
      }
    }
    auto z = y.clone();
    const auto time = qkv(norm(y, "norm2"), "time_qkv.weight");
    for (int64_t b = 0; b < x.size(0); ++b) {
      for (int64_t s = 0; s < x.size(2); ++s) {
        for (int64_t t = 0; t < x.size(1); ++t) {
          const auto seen = seen_by(t);
          z[b][t][s] += torch::matmul(
              heads(time[b].select(1, s).index_select(0, seen),
                    angles.time.index_select(0, seen), 1, given_ > 0),
              w_["time_output.weight"].t())[0];
        }
      }
    }
    const auto inner = torch::linear(norm(z, "norm3"), w_["linear1.weight"],
                                     w_["linear1.bias"]);
    return z + torch::linear(torch::gelu(inner), w_["linear2.weight"],
                             w_["linear2.bias"]);
  }

 private:
  // Frames that frame t attends to over time, and itself, the last.
  Tensor seen_by(int64_t t) const {
    if (given_ == 0) {
      return torch::arange(std::max<int64_t>(0, t + 1 - kMemory), t + 1);
    }
    return torch::cat({torch::arange(given_), torch::tensor({t})});
  }
  Tensor norm(const Tensor& x, const std::string& name) const {
    const auto mean = x.mean(-1, true);
    const auto variance = (x - mean).square().mean(-1, true);
    return (x - mean) / (variance + 1e-5).sqrt() * w_[name + ".weight"] +
           w_[name + ".bias"];
  }
  // (…, C) → (…, 3, H, D)
  Tensor qkv(const Tensor& x, const std::string& name) const {
    return torch::matmul(x, w_[name].t())
        .unflatten(-1, {3, kHeads, kWidth / kHeads});
  }
  static Tensor heads(const Tensor& all, const Tensor& angles, int64_t asked,
                      bool others = false) {
    std::vector<Tensor> each;
    for (int64_t h = 0; h < kHeads; ++h) {
      each.push_back(mixed(all.select(2, h).flatten(1), angles, asked, others));
    }
    return torch::cat(each, -1);
  }

  int64_t given_;
  torch::OrderedDict<std::string, Tensor> w_;
};

TEST(NnSpaceTimeBlock, IsWhatItsDefinitionSays) {
  const torch::NoGradGuard no_grad;
  auto block = made_block();
  const auto x = random({2, 5, 6, kWidth}, "x");
  const auto angles = angles_of(5, 6);
  EXPECT_TRUE(near(block(x, angles, nullptr), PlainBlock(block)(x, angles),
                   {1e-10, 1e-11}));
}

// Of a block mask, with one given frame, some and all.
TEST(NnSpaceTimeBlock, AttendsToGivenFramesAsItsDefinitionSays) {
  const torch::NoGradGuard no_grad;
  const auto x = random({2, 5, 6, kWidth}, "x");
  const auto angles = angles_of(5, 6);
  for (const int64_t given : {1, 3, 5}) {
    auto block = made_block(given);
    EXPECT_TRUE(near(block(x, angles, nullptr),
                     PlainBlock(block, given)(x, angles), {1e-10, 1e-11}));
    auto hidden = x.clone();
    hidden.slice(1, given).fill_(std::nan(""));
    EXPECT_TRUE(torch::equal(block(hidden, angles, nullptr).narrow(1, 0, given),
                             block(x, angles, nullptr).narrow(1, 0, given)));
  }
}

TEST(NnSpaceTimeBlock, GradientsThroughGivenFramesAreRight) {
  auto block = made_block(2);
  const auto angles = angles_of(4, 3);
  EXPECT_TRUE(testing::gradient_is_right(
      [&](const Tensor& x) { return block(x, angles, nullptr).square().sum(); },
      random({1, 4, 3, kWidth}, "x")));
}

// However the frames come, and however many there are at a time.
TEST(NnSpaceTimeBlock, GoesOnFromKeptKeysAndValues) {
  const torch::NoGradGuard no_grad;
  auto block = made_block();
  const auto x = random({2, 7, 4, kWidth}, "x");
  const auto angles = angles_of(7, 4);
  const auto whole = block(x, angles, nullptr);
  FrameCache cache;
  int64_t done = 0;
  for (const int64_t count : {1, 3, 1, 2}) {
    const auto part =
        block(x.narrow(1, done, count), frames_of(angles, done, count), &cache);
    EXPECT_TRUE(near(part, whole.narrow(1, done, count), testing::kFloat64));
    done += count;
    EXPECT_EQ(cache.keys.size(1), std::min(done, kMemory - 1));
  }
}

TEST(NnSpaceTimeBlock, AttendsToTheLastFramesAlone) {
  const torch::NoGradGuard no_grad;
  auto block = made_block();
  const auto x = random({1, 6, 4, kWidth}, "x");
  const auto angles = angles_of(6, 4);
  auto other = x.clone();
  other.select(1, 1).fill_(std::nan(""));
  const auto before = block(x, angles, nullptr),
             after = block(other, angles, nullptr);
  for (int64_t t = 0; t < 6; ++t) {
    const bool same = torch::equal(before.select(1, t), after.select(1, t));
    EXPECT_EQ(same, t < 1 || t >= 1 + kMemory) << t;
  }
}

// Only differences of angles count.
TEST(NnSpaceTimeBlock, KnowsWhereFramesAreToOneAnother) {
  const torch::NoGradGuard no_grad;
  auto block = made_block();
  const auto x = random({1, 4, 5, kWidth}, "x");
  const auto angles = angles_of(4, 5);
  const auto by = random({2}, "by");
  const SpaceTimeAngles later{angles.space + by, angles.time - 2 * by};
  EXPECT_TRUE(near(block(x, later, nullptr), block(x, angles, nullptr),
                   {1e-10, 1e-11}));
}

TEST(NnSpaceTimeBlock, GradientsAreRight) {
  auto block = made_block();
  const auto angles = angles_of(4, 2);
  EXPECT_TRUE(testing::gradient_is_right(
      [&](const Tensor& x) {
        FrameCache cache;
        const auto first =
            block(x.narrow(1, 0, 3), frames_of(angles, 0, 3), &cache);
        const auto last =
            block(x.narrow(1, 3, 1), frames_of(angles, 3, 1), &cache);
        return first.square().sum() + last.pow(3).sum();
      },
      0.3 * random({1, 4, 2, kWidth}, "x")));
}

TEST(NnSpaceTimeBlock, HasAsManyParametersAsItSays) {
  EXPECT_EQ(parameter_count(*made_block()), 16 * kWidth * kWidth + 11 * kWidth);
}

// What a patch gets is the values of others times the weights that are shown.
TEST(NnSpaceTimeBlock, ShowsTheWeightsItUses) {
  const int64_t frames = 4, patches = 5, patch = 2;
  const auto x = random({2, frames, patches, kWidth}, "x");
  const auto angles = angles_of(frames, patches);
  for (const bool space : {true, false}) {
    auto block = made_block();
    const torch::NoGradGuard no_grad;
    auto all = block->named_parameters();
    for (const char* name : {"linear2.weight", "linear2.bias"}) {
      all[name].zero_();
    }
    all[space ? "time_output.weight" : "space_output.weight"].zero_();
    Tensor weights;  // (B, T, H, n)
    const auto ignore = [](const Tensor&) {};
    const auto keep = [&](const Tensor& shown) { weights = shown; };
    SpaceTimeObserver observer{.patch = patch, .space = ignore, .time = ignore};
    (space ? observer.space : observer.time) = keep;
    block->observe(observer);
    const auto got = (block->forward(x, angles) - x).select(2, patch);
    const std::string name = space ? "norm1" : "norm2",
                      qkv = space ? "space_qkv" : "time_qkv",
                      output = space ? "space_output" : "time_output";
    const auto normed = torch::layer_norm(x, {kWidth}, all[name + ".weight"],
                                          all[name + ".bias"]);
    const auto v = torch::matmul(normed, all[qkv + ".weight"].t())
                       .chunk(3, -1)[2]
                       .unflatten(-1, {kHeads, -1});  // (B, T, S, H, D)
    Tensor mix =
        torch::zeros({2, frames, kHeads, kWidth / kHeads}, torch::kFloat64);
    if (space) {
      mix = torch::einsum("bths,btshd->bthd", {weights, v});
    } else {
      for (int64_t t = 0; t < frames; ++t) {
        for (int64_t back = 0; back < kMemory; ++back) {
          const auto weight =
              weights.select(1, t).select(-1, kMemory - 1 - back);  // (B, H)
          if (back > t) {
            EXPECT_EQ(weight.abs().max().item<double>(), 0);
            continue;
          }
          mix.select(1, t) +=
              weight.unsqueeze(-1) * v.select(1, t - back).select(1, patch);
        }
      }
    }
    EXPECT_TRUE(
        near(got, torch::matmul(mix.flatten(-2), all[output + ".weight"].t()),
             testing::kFloat64));
  }
}

}  // namespace
}  // namespace propagator::nn
