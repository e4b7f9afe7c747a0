#include "propagator/nn/patches.h"

#include "testing.h"

namespace propagator::nn {
namespace {

using testing::random;
using testing::thrown;

// Patch (i, j) has the nodes (2 i + a, 2 j + b), in the order of a and b.
TEST(NnPatches, AreThoseOfTheGrid) {
  const auto x = random({3, 4, 6, 5}, "x");
  const auto patches = patches_of(x, 2, 2);
  ASSERT_EQ(patches.sizes(), torch::IntArrayRef({3, 6, 20}));
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      for (int64_t n = 0; n < 4; ++n) {
        const auto node =
            x.select(1, 2 * i + n / 2).select(1, 2 * j + n % 2);  // (3, 5)
        const auto at = patches.select(1, 3 * i + j).narrow(1, 5 * n, 5);
        EXPECT_TRUE(torch::equal(at, node)) << i << " " << j << " " << n;
      }
    }
  }
}

TEST(NnPatches, ComeBackAsFields) {
  const std::vector<std::vector<int64_t>> grids{{9}, {3, 6}, {6, 3, 9}};
  for (const auto& nodes : grids) {
    std::vector<int64_t> shape{2, 4};
    shape.insert(shape.end(), nodes.begin(), nodes.end());
    shape.push_back(2);
    const auto x = random(shape, "x");
    const auto patches = patches_of(x, std::ssize(nodes), 3);
    EXPECT_TRUE(torch::equal(fields_of(patches, nodes, 3), x));
  }
}

TEST(NnPatches, SayWhatDoesNotFit) {
  const auto message = thrown<std::invalid_argument>([] {
    patches_of(torch::zeros({1, 8, 6, 1}), 2, 4);
  });
  EXPECT_NE(message.find("2 axes of a multiple of 4 nodes, got (1, 8, 6, 1)"),
            std::string::npos)
      << message;
}

}  // namespace
}  // namespace propagator::nn
