#include "propagator/kernels/tile_product.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "testing.h"

namespace propagator::kernels {
namespace {

using testing::near;
using testing::random;
using torch::Tensor;

template <class Real>
Tensor multiply(const Tensor& a, const Tensor& b, const Tensor& start) {
  auto c = torch::full({a.size(0), b.size(1)}, 7, b.options());  // overwritten
  TileProduct<Real>{
      .rows = a.size(0),
      .inner = a.size(1),
      .columns = b.size(1),
      .a = a.data_ptr<Real>(),
      .a_row = a.stride(0),
      .a_step = a.stride(1),
      .b = b.data_ptr<Real>(),
      .b_row = b.stride(0),
      .c = c.template data_ptr<Real>(),
      .c_row = c.stride(0),
      .start = start.defined() ? start.data_ptr<Real>() : nullptr,
      .start_row = start.defined() && start.dim() == 2 ? start.stride(0) : 0}
      .run();
  return c;
}

// Every height of a tile, every number of vectors in it, and several tiles.
template <class Real>
void check(torch::ScalarType type, testing::Tolerance tolerance) {
  constexpr int64_t kWidth = Lanes<Real>::kWidth;
  for (int64_t rows = 1; rows < 14; ++rows) {
    for (int64_t vectors = 1; vectors < 10; ++vectors) {
      const int64_t inner = rows + vectors - 1, columns = vectors * kWidth;
      const auto a = random({rows, inner}, "a"),
                 b = random({inner, columns}, "b");
      const auto start = random({rows, columns}, "start");
      const auto product = torch::matmul(a, b);
      const auto of = [&](const Tensor& x) { return x.to(type); };
      EXPECT_TRUE(near(multiply<Real>(of(a), of(b), {}), product, tolerance));
      EXPECT_TRUE(near(multiply<Real>(of(a), of(b), of(start)), product + start,
                       tolerance));
      // A bias, a transpose, and rows that lie apart.
      const auto turned = of(a).t().contiguous().t();
      const auto apart = torch::cat({of(b), of(b)}, 1).narrow(1, 0, columns);
      EXPECT_TRUE(near(multiply<Real>(turned, apart, of(start[0])),
                       product + start[0], tolerance));
    }
  }
}

TEST(KernelsTileProduct, IsTheProduct) {
  check<double>(torch::kFloat64, testing::kFloat64);
  check<float>(torch::kFloat32, testing::kFloat32);
}

}  // namespace
}  // namespace propagator::kernels
