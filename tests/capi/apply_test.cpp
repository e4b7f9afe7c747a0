#include <ATen/record_function.h>

#include <algorithm>
#include <cstring>

#include "capi/open_runs.h"
#include "propagator/run/run.h"

namespace propagator::capi {
namespace {

using testing::apply;
using testing::array;
using testing::column_major;
using testing::near;
using testing::OpenHandle;
using torch::Tensor;

// Plates, and what the library itself says of them.
class CapiApply : public ::testing::Test {
 protected:
  static Tensor plates(int64_t count) {
    return (testing::random({count, 3, 6, 7}, "plates") * 0.5 + 0.5)
        .to(torch::kFloat32);
  }
  static Tensor alphas(int64_t count) {
    return torch::linspace(0.02, 0.09, count);
  }

  const OpenHandle handle{"plate"};
  const run::Run direct = run::open(testing::runs_folder() / "plate");
  const Tensor first = plates(6), alpha = alphas(6);
  const Tensor expected =
      direct.apply({{"fields", first}, {"alpha", alpha}}).at("fields");
};

TEST_F(CapiApply, GivesTheBitsOfTheLibrary) {
  const auto answer = torch::full({6, 8, 6, 7}, NAN);
  const auto same = torch::full({6}, NAN);
  ASSERT_EQ(apply(handle.run, {array("fields", first), array("alpha", alpha)},
                  {array("fields", answer), array("alpha", same)}),
            PG_OK)
      << pg_last_error();
  EXPECT_STREQ(pg_last_error(), "");
  EXPECT_TRUE(torch::equal(answer, expected));
  EXPECT_TRUE(torch::equal(same, alpha));
}

TEST_F(CapiApply, StridesMayBeLeftToItInRowMajorOrder) {
  const auto answer = torch::full({6, 8, 6, 7}, NAN);
  auto in = array("fields", first), out = array("fields", answer);
  in.strides = out.strides = nullptr;
  ASSERT_EQ(apply(handle.run, {in, array("alpha", alpha)}, {out}), PG_OK);
  EXPECT_TRUE(torch::equal(answer, expected));
}

TEST_F(CapiApply, ColumnMajorArraysGiveTheSameBits) {
  const auto in = column_major(first);
  const auto answer = column_major(torch::full({6, 8, 6, 7}, NAN));
  ASSERT_EQ(in.stride(0), 1);
  ASSERT_EQ(apply(handle.run, {array("fields", in), array("alpha", alpha)},
                  {array("fields", answer)}),
            PG_OK);
  EXPECT_TRUE(torch::equal(answer, expected));
}

// Every other row and column of larger arrays, and one alpha for all cases.
TEST_F(CapiApply, SectionsAreReadAndWrittenWhereTheyAre) {
  const auto inside = [](const Tensor& all) {
    return all.slice(2, 0, 12, 2).slice(3, 1, 15, 2);
  };
  const auto around = torch::full({6, 3, 12, 15}, NAN);
  const auto out = torch::full({6, 8, 12, 15}, -7.0F);
  inside(around).copy_(first);
  const auto one = torch::full({1}, 0.05).expand({6});
  ASSERT_EQ(one.stride(0), 0);
  ASSERT_EQ(
      apply(handle.run, {array("fields", inside(around)), array("alpha", one)},
            {array("fields", inside(out))}),
      PG_OK)
      << pg_last_error();
  const auto alone =
      direct.apply({{"fields", first}, {"alpha", one}}).at("fields");
  EXPECT_TRUE(torch::equal(inside(out), alone));
  inside(out).fill_(-7);
  EXPECT_TRUE((out == -7).all().item<bool>());
}

TEST_F(CapiApply, TypesAreConverted) {
  const auto answer = torch::full({6, 8, 6, 7}, NAN, torch::kFloat64);
  const auto first_double = first.to(torch::kFloat64);
  ASSERT_EQ(
      apply(handle.run, {array("fields", first_double), array("alpha", alpha)},
            {array("fields", answer)}),
      PG_OK);
  EXPECT_TRUE(torch::equal(answer, expected.to(torch::kFloat64)));
  const auto whole = torch::arange(6 * 3 * 6 * 7, torch::kInt32)
                         .view({6, 3, 6, 7})
                         .remainder(2);
  ASSERT_EQ(apply(handle.run, {array("fields", whole), array("alpha", alpha)},
                  {array("fields", answer)}),
            PG_OK);
  const auto from_whole =
      direct.apply({{"fields", whole}, {"alpha", alpha}}).at("fields");
  EXPECT_TRUE(torch::equal(answer, from_whole.to(torch::kFloat64)));
}

// eval.batch is 4: the last cases are computed in a batch of their own.
TEST_F(CapiApply, CasesOfABatchAreThoseOfCallsOfTheirOwn) {
  for (int64_t n = 0; n < 6; ++n) {
    const auto answer = torch::full({1, 8, 6, 7}, NAN);
    const auto one = first.narrow(0, n, 1), its_alpha = alpha.narrow(0, n, 1);
    ASSERT_EQ(
        apply(handle.run, {array("fields", one), array("alpha", its_alpha)},
              {array("fields", answer)}),
        PG_OK);
    EXPECT_TRUE(near(answer, expected.narrow(0, n, 1), testing::kFloat32));
  }
}

// A solver may keep all frames in one array: input and answer overlap.
TEST_F(CapiApply, TheAnswerMayLieOverTheInput) {
  const auto history = torch::zeros({6, 8, 6, 7});
  history.narrow(1, 0, 3).copy_(first);
  const auto given = history.narrow(1, 0, 3);
  ASSERT_EQ(apply(handle.run, {array("fields", given), array("alpha", alpha)},
                  {array("fields", history)}),
            PG_OK);
  EXPECT_TRUE(torch::equal(history, expected));
}

// Which operations of libtorch `work` runs in this thread.
template <class Work>
std::vector<std::string> operations(Work&& work) {
  static std::vector<std::string>* all;
  std::vector<std::string> names;
  all = &names;
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& f)
                                     -> std::unique_ptr<at::ObserverContext> {
        all->emplace_back(f.name());
        return nullptr;
      }).scopes({at::RecordScope::FUNCTION}));
  work();
  at::removeCallback(handle);
  return names;
}

// The library alone copies what it computed into an array that it returns; here
// that array is the caller's, whatever its strides.
TEST_F(CapiApply, CopiesNoMoreThanTheLibraryDoes) {
  const auto answer = torch::empty({6, 8, 6, 7});
  const auto turned = column_major(answer);
  const auto copies = [](const std::vector<std::string>& names) {
    return std::ranges::count(names, "aten::copy_") +
           std::ranges::count(names, "aten::clone");
  };
  const auto in = array("fields", first), its_alpha = array("alpha", alpha);
  const auto library = operations([&] {
    direct.apply({{"fields", first}, {"alpha", alpha}});
  });
  EXPECT_GT(copies(library), 1);
  for (const auto& place : {answer, turned}) {
    const auto ours = operations([&] {
      ASSERT_EQ(apply(handle.run, {in, its_alpha}, {array("fields", place)}),
                PG_OK);
    });
    EXPECT_EQ(copies(ours), copies(library) - 1);  // nobody asked for alpha
  }
}

TEST_F(CapiApply, TellsWhatItTakesAndGives) {
  const pg_port* ports = nullptr;
  size_t count = 0;
  ASSERT_EQ(pg_inputs(handle.run, &ports, &count), PG_OK);
  ASSERT_EQ(count, 2U);
  EXPECT_STREQ(ports[0].name, "fields");
  EXPECT_EQ(std::vector<int64_t>(ports[0].shape, ports[0].shape + 4),
            (std::vector<int64_t>{-1, -1, 6, 7}));
  EXPECT_NE(std::strstr(ports[0].meaning, "first 3 frames"), nullptr);
  EXPECT_STREQ(ports[1].name, "alpha");
  EXPECT_EQ(ports[1].rank, 1);
  ASSERT_EQ(pg_outputs(handle.run, &ports, &count), PG_OK);
  EXPECT_EQ(std::vector<int64_t>(ports[0].shape, ports[0].shape + 4),
            (std::vector<int64_t>{-1, 8, 6, 7}));

  const pg_tensor inputs[] = {array("fields", first), array("alpha", alpha)};
  int64_t shape[PG_MAX_RANK];
  int32_t rank = 0;
  ASSERT_EQ(pg_output_shape(handle.run, inputs, 2, "fields", shape, &rank),
            PG_OK);
  EXPECT_EQ(std::vector<int64_t>(shape, shape + rank),
            (std::vector<int64_t>{6, 8, 6, 7}));
}

// Points on a grid; this task's answers are copied to where they belong.
TEST(CapiSolve, AnswersOnGridsInAnyLayout) {
  const OpenHandle handle("pde");
  const auto direct = run::open(testing::runs_folder() / "pde");
  const auto axes = torch::meshgrid({torch::linspace(0, 1, 5, torch::kFloat64),
                                     torch::linspace(0, 1, 4, torch::kFloat64)},
                                    "ij");
  const auto expected = direct.apply({{"x", axes[0]}, {"t", axes[1]}}).at("u");
  ASSERT_EQ(expected.sizes(), (std::vector<int64_t>{5, 4}));
  const auto x = column_major(axes[0]), t = column_major(axes[1]);
  const auto u = column_major(torch::full({5, 4}, NAN, expected.options()));
  ASSERT_EQ(apply(handle.run, {array("t", t), array("x", x)}, {array("u", u)}),
            PG_OK)
      << pg_last_error();
  EXPECT_TRUE(torch::equal(u, expected));
  const auto flat = torch::full({20}, NAN);
  EXPECT_EQ(
      apply(handle.run, {array("t", t), array("x", x)}, {array("u", flat)}),
      PG_USAGE);
  EXPECT_STREQ(pg_last_error(),
               "expected room for 'u' of shape (5, 4), got (20)");
}

}  // namespace
}  // namespace propagator::capi
