#include "propagator/kernels/greens/green_attention.h"

#include <ATen/Parallel.h>
#include <torch/autograd.h>
#include <torch/utils.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "propagator/core/torch_compat.h"
#include "propagator/kernels/log.h"
#include "testing.h"

namespace propagator::kernels {
namespace {

using testing::gradient_is_right;
using testing::near;
using testing::random;
using testing::thrown;
using torch::Tensor;

struct GreenCase {
  GreenKind kind;
  int64_t dimensions;
};
constexpr GreenCase kCases[] = {{GreenKind::kNone, 1},
                                {GreenKind::kHeat, 1},
                                {GreenKind::kHeat, 2},
                                {GreenKind::kHeat, 3},
                                {GreenKind::kWave, 1},
                                {GreenKind::kWave, 2},
                                {GreenKind::kWave, 3},
                                {GreenKind::kPoisson, 1},
                                {GreenKind::kPoisson, 2},
                                {GreenKind::kPoisson, 3},
                                {GreenKind::kAdvectionDiffusion, 1},
                                {GreenKind::kAdvectionDiffusion, 2},
                                {GreenKind::kAdvectionDiffusion, 3}};

GreenTerm term_of(const GreenCase& c, bool global) {
  GreenTerm term{{c.kind, c.dimensions}, {}, global, global};
  term.function.core = 0.2;
  term.function.radius = 2.5;
  const auto parameters = torch::tensor({0.6, 0.3, -0.2, 0.4}, torch::kFloat64);
  term.parameters = parameters.slice(0, 0, term.function.parameters());
  return term;
}

// Heads, places and a cotangent; numbers that float32 has as well.
struct Inputs {
  Tensor q, k, v, cotangent;
  GreenTokens at;

  Inputs(int64_t batch, int64_t heads, int64_t queries, int64_t keys,
         int64_t depth, bool hides = false)
      : q(exact({batch, heads, queries, depth}, "q")),
        k(exact({batch, heads, keys, depth}, "k")),
        v(exact({batch, heads, keys, depth}, "v")),
        cotangent(exact({batch, heads, queries, depth}, "cotangent")),
        at{exact({batch, queries, 4}, "queries"),
           exact({batch, keys, 4}, "keys")} {
    if (!hides) return;
    at.hidden = random({batch, keys}, "hidden") > 0.5;
    at.hidden.select(1, 0).fill_(false);
  }

  static Tensor exact(at::IntArrayRef shape, const std::string& name) {
    return random(shape, name).to(torch::kFloat32).to(torch::kFloat64);
  }

  // Time is behind as much space as a function knows.
  static Tensor places(const Tensor& all, const GreenFunction& f) {
    if (!f.in_time()) return all;
    return torch::cat({all.slice(2, 0, f.dimensions), all.slice(2, 3, 4)}, 2);
  }
};

using Attention = Tensor (*)(const Tensor&, const Tensor&, const Tensor&,
                             const GreenTerm&, const GreenTokens&);

// The answer and its gradients by q, k, v and the parameters.
std::vector<Tensor> results(Attention attention, const Inputs& in,
                            GreenTerm term, torch::Device device,
                            torch::ScalarType type) {
  const auto leaf = [&](const Tensor& x) {
    return x.to(device, type).detach().requires_grad_();
  };
  std::vector<Tensor> inputs{leaf(in.q), leaf(in.k), leaf(in.v)};
  if (term.function.parameters() > 0) {
    term.parameters = leaf(term.parameters);
    inputs.push_back(term.parameters);
  }
  const auto place = [&](const Tensor& all) {
    return Inputs::places(all, term.function).to(device, type);
  };
  const auto out =
      attention(inputs[0], inputs[1], inputs[2], term,
                {place(in.at.queries), place(in.at.keys),
                 in.at.hidden.defined() ? in.at.hidden.to(device) : Tensor()});
  auto all =
      torch::autograd::grad({out}, inputs, {in.cotangent.to(device, type)});
  all.insert(all.begin(), out);
  return all;
}

std::vector<Tensor> plain(const Inputs& in, const GreenTerm& term) {
  return results(green_attention_reference, in, term, torch::kCPU,
                 torch::kFloat64);
}

// Sums of many terms, of logits that are not small.
constexpr testing::Tolerance kSums64{1e-9, 1e-11};
constexpr testing::Tolerance kSums32{1e-3, 2e-4};
constexpr testing::Tolerance kTf32{3e-2, 3e-2};

void expect_plain(const Inputs& in, const GreenTerm& term,
                  const std::string& what) {
  const auto wanted = plain(in, term);
  for (const auto& device : testing::devices()) {
    for (const auto type : {torch::kFloat64, torch::kFloat32}) {
      const auto got = results(green_attention, in, term, device, type);
      ASSERT_EQ(got.size(), wanted.size());
      for (size_t n = 0; n < got.size(); ++n) {
        // Gradients of parameters are sums over all pairs.
        const double size = std::max(1.0, wanted[n].abs().max().item<double>());
        auto tolerance = type == torch::kFloat64 ? kSums64 : kSums32;
        tolerance.absolute *= size;
        EXPECT_TRUE(near(got[n], wanted[n], tolerance))
            << what << ": " << n << " on " << device << " in " << type;
      }
    }
  }
}

std::string name_of(const GreenCase& c) {
  return std::to_string(static_cast<int>(c.kind)) + " in " +
         std::to_string(c.dimensions);
}

TEST(KernelsGreenAttention, IsThatOfPlainOperationsForEveryKind) {
  for (const auto& c : kCases) {
    for (const auto scale : {GreenScale::kFull, GreenScale::kPeak}) {
      auto term = term_of(c, true);
      term.function.scale = scale;
      expect_plain(Inputs(2, 3, 17, 17, 8), term, name_of(c));
    }
    auto term = term_of(c, true);
    term.function.time_core = 0.1;
    expect_plain(Inputs(1, 2, 40, 40, 16), term, name_of(c));
  }
}

TEST(KernelsGreenAttention, IsThatOfPlainOperationsForEverySize) {
  for (const auto& c : {kCases[0], kCases[2], kCases[5], kCases[8]}) {
    for (const int64_t count : {1, 2, 17, 300}) {
      for (const int64_t depth : {8, 24, 32, 64}) {
        if (count == 300 && depth == 24) continue;
        expect_plain(Inputs(1, 2, count, count, depth), term_of(c, true),
                     name_of(c));
      }
    }
  }
}

TEST(KernelsGreenAttention, HidesKeysAndCrossesSets) {
  for (const auto& c : kCases) {
    expect_plain(Inputs(2, 2, 33, 150, 16, true), term_of(c, true), name_of(c));
    // Without a global token, later than all keys and inside every cone.
    if (c.kind == GreenKind::kWave && c.dimensions == 3) continue;
    Inputs in(2, 2, 140, 21, 8, true);
    in.at.queries.select(2, 3).add_(8);
    auto term = term_of(c, false);
    term.function.radius = 8;
    expect_plain(in, term, name_of(c));
  }
}

TEST(KernelsGreenAttention, CasesMayShareTheirPlaces) {
  Inputs in(3, 2, 20, 25, 8, true);
  in.at.queries = in.at.queries.slice(0, 0, 1);
  in.at.keys = in.at.keys.slice(0, 0, 1);
  expect_plain(in, term_of(kCases[2], true), "heat");
  expect_plain(in, term_of(kCases[8], true), "poisson");
}

TEST(KernelsGreenAttention, NoQueriesHaveNoAnswers) {
  const auto got =
      results(green_attention, Inputs(2, 2, 0, 7, 8), term_of(kCases[1], false),
              torch::kCPU, torch::kFloat32);
  EXPECT_EQ(got[0].sizes(), (std::vector<int64_t>{2, 2, 0, 8}));
  EXPECT_EQ(got[1].numel(), 0);
  EXPECT_EQ(got[2].abs().sum().item<double>(), 0);
}

TEST(KernelsGreenAttention, GradientsAreThoseOfDifferences) {
  const Inputs in(1, 2, 9, 9, 8);
  for (const auto& c : {kCases[2], kCases[5], kCases[12]}) {
    const auto term = term_of(c, true);
    const auto at = [&] {
      return GreenTokens{Inputs::places(in.at.queries, term.function),
                         Inputs::places(in.at.keys, term.function)};
    };
    const auto of_query = [&](const Tensor& q) {
      return (green_attention(q, in.k, in.v, term, at()) * in.cotangent).sum();
    };
    EXPECT_TRUE(gradient_is_right(of_query, in.q));
    const auto of_parameters = [&](const Tensor& parameters) {
      auto moved = term;
      moved.parameters = parameters;
      return (green_attention(in.q, in.k, in.v, moved, at()) * in.cotangent)
          .sum();
    };
    EXPECT_TRUE(gradient_is_right(of_parameters, term.parameters));
  }
}

// On the CPU one head takes another way for two threads.
TEST(KernelsGreenAttention, RepeatsItsBitsWithAnyNumberOfThreads) {
  const auto term = term_of(kCases[2], true);
  const int threads = at::get_num_threads();
  for (const int64_t heads : {1, 4}) {
    const Inputs in(1, heads, 200, 200, 16);
    for (const auto& device : testing::devices()) {
      const auto compute = [&](int count) {
        at::set_num_threads(count);
        return results(green_attention, in, term, device, torch::kFloat32);
      };
      const auto once = compute(1), twice = compute(2);
      at::set_num_threads(threads);
      for (size_t n = 0; n < once.size(); ++n) {
        EXPECT_TRUE(torch::equal(once[n], twice[n])) << n << " of " << heads;
      }
    }
  }
}

TEST(KernelsGreenAttention, HiddenKeysHaveNoInfluence) {
  for (const auto& device : testing::devices()) {
    Inputs in(2, 2, 50, 50, 16, true);
    const auto term = term_of(kCases[2], true);
    const auto compute = [&] {
      return results(green_attention, in, term, device, torch::kFloat32)[0];
    };
    const auto before = compute();
    const auto moved = in.at.hidden.unsqueeze(1).unsqueeze(3) *
                       torch::full({1}, 3.0, torch::kFloat64);
    in.k = in.k + moved;
    in.v = in.v - moved;
    in.at.keys = in.at.keys.masked_fill(
        in.at.hidden.unsqueeze(2), std::numeric_limits<double>::quiet_NaN());
    EXPECT_TRUE(torch::equal(compute(), before));
  }
}

TEST(KernelsGreenAttention, WhatIsNoNumberShows) {
  Inputs in(1, 1, 20, 20, 8);
  in.k[0][0][7][3] = std::numeric_limits<double>::quiet_NaN();
  const auto term = term_of(kCases[7], true);  // all see all
  for (const auto& device : testing::devices()) {
    const auto out =
        results(green_attention, in, term, device, torch::kFloat32)[0];
    EXPECT_TRUE(out.isnan().all().item<bool>());
  }
  // A query without a visible key.
  const Inputs early(1, 1, 5, 5, 8);
  early.at.queries.select(2, 3).sub_(9);
  for (const auto& device : testing::devices()) {
    const auto out = results(green_attention, early, term_of(kCases[1], false),
                             device, torch::kFloat32)[0];
    EXPECT_TRUE(out.isnan().all().item<bool>());
  }
}

TEST(KernelsGreenAttention, OtherHeadsTakeRunsOfQueries) {
  EXPECT_FALSE(has_green_attention(torch::zeros({1, 1, 1, 3})));
  EXPECT_FALSE(has_green_attention(torch::zeros({1, 1, 1, 72})));
  EXPECT_TRUE(has_green_attention(torch::zeros({1, 1, 1, 64})));
  for (const auto& c : {kCases[5], kCases[8], kCases[0]}) {
    expect_plain(Inputs(2, 2, 17, 19, 3), term_of(c, true), name_of(c));
  }
  // More scores than are in memory at once: two runs.
  const Inputs in(4, 8, 420, 400, 2, true);
  const auto term = term_of(kCases[11], true);
  const auto wanted = results(green_attention_reference, in, term, torch::kCPU,
                              torch::kFloat32);
  const auto got =
      results(green_attention, in, term, torch::kCPU, torch::kFloat32);
  for (size_t n = 0; n < got.size(); ++n) {
    const double size = wanted[n].abs().max().item<double>();
    EXPECT_TRUE(near(got[n], wanted[n], {1e-4, 1e-5 * size})) << n;
  }
}

// The most memory that this process had at once since `begin`, in bytes.
class PeakOfProcess {
 public:
  bool begin() {
    std::ofstream out("/proc/self/clear_refs");
    out << "5" << std::flush;
    return out.good() && peak() > 0;
  }
  double peak() const {
    std::ifstream in("/proc/self/status");
    for (std::string line; std::getline(in, line);) {
      if (line.rfind("VmHWM:", 0) == 0) return 1024 * std::stod(line.substr(6));
    }
    return 0;
  }
};

TEST(KernelsGreenAttention, MemoryGrowsWithTheTokensNotTheirSquare) {
  const int64_t count = 6000;
  const Inputs in(1, 1, count, count, 8);
  const auto term = term_of(kCases[4], true);
  PeakOfProcess memory;
  if (!memory.begin()) GTEST_SKIP() << "the kernel does not tell its peak";
  const double before = memory.peak();
  results(green_attention, in, term, torch::kCPU, torch::kFloat32);
  // One matrix of float32; plain operations keep several.
  const double square = 4.0 * static_cast<double>(count * count);
  EXPECT_LT(memory.peak() - before, square / 2);
}

TEST(KernelsGreenAttention, Tf32IsNear) {
  for (const auto& device : testing::devices()) {
    if (!device.is_cuda()) continue;
    const Tf32Scope tf32(true);
    for (const auto& c : kCases) {
      const Inputs in(2, 2, 100, 100, 32);
      const auto wanted = plain(in, term_of(c, true));
      const auto got = results(green_attention, in, term_of(c, true), device,
                               torch::kFloat32);
      for (size_t n = 0; n < got.size(); ++n) {
        const double size = std::max(1.0, wanted[n].abs().max().item<double>());
        EXPECT_TRUE(
            near(got[n], wanted[n], {kTf32.relative, kTf32.absolute * size}))
            << name_of(c) << " " << n;
      }
    }
  }
}

TEST(KernelsGreenAttention, SaysWhatDoesNotFit) {
  const Inputs in(1, 2, 5, 5, 8);
  const auto call = [&](const GreenTerm& term, const GreenTokens& at,
                        const Tensor& k) {
    return thrown<std::invalid_argument>(
        [&] { green_attention(in.q, k, in.v, term, at); });
  };
  const auto heat = term_of(kCases[2], true);
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(call(heat, {in.at.queries.slice(2, 0, 2), in.at.keys}, in.k),
      "expected coordinates of queries (1, 5, 3 or more), got (1, 5, 2)");
  has(call(heat, {in.at.queries, Tensor()}, in.k),
      "expected coordinates of keys (1, 5, 3 or more), got none");
  has(call(heat, in.at, in.k.slice(3, 0, 4)), "expected q (B, H, Tq, D)");
  has(call(heat, {in.at.queries, in.at.keys, torch::zeros({5}, torch::kBool)},
           in.k),
      "expected hidden keys as (1, 5) of bool, got (5)");
  auto none = heat;
  none.parameters = Tensor();
  has(call(none, in.at, in.k), "expected 1 parameters, got 0");
  auto wave = term_of(kCases[5], true);
  wave.function.core = 0;
  has(call(wave, in.at, in.k), "expected a core above 0 in 2 dimensions");
  auto poisson = term_of(kCases[8], true);
  poisson.function.radius = 0.1;
  has(call(poisson, in.at, in.k), "expected a radius above the core 0.2");
}

TEST(KernelsLog, IsRightToAFewUnitsInTheLastPlace) {
  double worst = 0;
  for (double x = 1e-37; x < 1e38; x *= 1.0137) {
    const auto number = static_cast<float>(x);
    const double exact = std::log(static_cast<double>(number));
    const double error = std::abs(log_of_positive(number) - exact);
    worst = std::max(worst, error / std::max(1.0, std::abs(exact)));
  }
  EXPECT_LT(worst, 2e-7);
  EXPECT_EQ(log_of_positive(1.f), 0);
}

}  // namespace
}  // namespace propagator::kernels
