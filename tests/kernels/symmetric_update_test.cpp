#include "propagator/kernels/symmetric_update.h"

#include <ATen/Parallel.h>
#include <torch/utils.h>

#include "testing.h"

namespace propagator::kernels {
namespace {

using propagator::testing::near;
using propagator::testing::random;
using torch::Tensor;

// As an update of an inverse Hessian has them: Σ p qᵀ is symmetric.
struct SymmetricCase {
  explicit SymmetricCase(int64_t n)
      : h(random({n, n}, "H")), p(random({2, n}, "p")), g(random({n}, "g")) {
    h = h + h.t();
    const auto m =
        torch::tensor({0.7, -0.3, -0.3, 1.9}, torch::kFloat64).view({2, 2});
    q = m.mm(p);
  }
  Tensor h, p, q, g;
};

Tensor whole(Tensor h) {
  h = h.clone();
  mirror_lower(h);
  return h;
}

TEST(KernelsSymmetricUpdate, IsTheReference) {
  // Fewer rows than a vector has numbers, than parts; not whole vectors.
  for (const int64_t n : {1, 2, 3, 5, 17, 64, 131, 258}) {
    const SymmetricCase c(n);
    auto expected = c.h.clone(), h = c.h.clone();
    const auto product =
        symmetric_update_reference(expected, 0.8, c.p, c.q, c.g);
    h.tril_();  // what is above the diagonal is not read
    const auto got = symmetric_update(h, 0.8, c.p, c.q, c.g);
    EXPECT_TRUE(near(whole(h), expected, testing::kFloat64)) << n;
    EXPECT_TRUE(near(got, product, {1e-12, 1e-12})) << n;
  }
}

TEST(KernelsSymmetricUpdate, AnUpdateThatWaitsHasTheSameBits) {
  const SymmetricCase c(203);
  const auto zero = torch::zeros_like(c.p);
  auto at_once = c.h.clone(), before = c.h.clone();
  const auto product = symmetric_update(at_once, 0.8, c.p, c.q, c.g);
  symmetric_update(before, 0.8, c.p, c.q, c.p[0]);  // by another g
  EXPECT_TRUE(torch::equal(whole(before), whole(at_once)));
  EXPECT_TRUE(
      torch::equal(symmetric_update(before, 1, zero, zero, c.g), product));
  EXPECT_TRUE(torch::equal(whole(before), whole(at_once)));
}

TEST(KernelsSymmetricUpdate, ThreadsDoNotMatter) {
  const SymmetricCase c(203);
  const int threads = at::get_num_threads();
  std::vector<Tensor> matrices, products;
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    matrices.push_back(c.h.clone());
    products.push_back(symmetric_update(matrices.back(), 0.8, c.p, c.q, c.g));
  }
  at::set_num_threads(threads);
  for (size_t k = 1; k < products.size(); ++k) {
    EXPECT_TRUE(torch::equal(products[k], products[0]));
    EXPECT_TRUE(torch::equal(matrices[k], matrices[0]));
  }
}

}  // namespace
}  // namespace propagator::kernels
