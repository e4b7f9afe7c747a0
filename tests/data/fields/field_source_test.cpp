#include "propagator/data/fields/field_source.h"

#include "propagator/core/error.h"
#include "testing.h"

namespace propagator::data {
namespace {

using testing::random;
using torch::Tensor;

class DataFieldSource : public ::testing::Test {
 protected:
  std::string file(const Tensors& tensors) {
    const auto path = folder_ / fmt::format("{}.h5", count_++);
    save_tensors(path, {tensors, ""});
    return path.string();
  }
  FieldSource source(const Tensors& tensors, const FieldChoices& choices = {}) {
    return {file(tensors), choices};
  }
  template <class Error>
  std::string error_of(const Tensors& tensors,
                       const FieldChoices& choices = {}) {
    return testing::thrown<Error>(
        [&] { source(tensors, choices).values(0, 1); });
  }
  testing::TemporaryFolder folder_;
  int count_ = 0;
};

std::vector<std::string> axes_of(const FieldSource& source) {
  std::vector<std::string> names;
  for (const auto& axis : source.layout().axes) names.push_back(axis.name);
  return names;
}

TEST_F(DataFieldSource, GuessesAxesByTheShape) {
  struct Expected {
    std::vector<int64_t> shape, nodes;
    int64_t channels;
  };
  for (const auto& [shape, nodes, channels] :
       {Expected{{12, 6, 16}, {16}, 1},
        {{12, 6, 16, 16}, {16, 16}, 1},
        {{12, 6, 16, 2}, {16}, 2},
        {{12, 6, 16, 16, 3}, {16, 16}, 3},
        {{12, 6, 9, 9, 9}, {9, 9, 9}, 1}}) {
    const auto found = source({{"arr_0", random(shape, "x")}});
    EXPECT_EQ(found.nodes(), nodes);
    EXPECT_EQ(std::ssize(found.layout().channels), channels);
    EXPECT_EQ(found.cases(), 12);
    EXPECT_EQ(found.layout().times.numel(), 6);
    EXPECT_NE(found.describe().find("guessed"), std::string::npos);
  }
}

TEST_F(DataFieldSource, TakesAxesInTheOrderThatIsSaid) {
  const auto x = random({16, 12, 3, 6, 9}, "x").to(torch::kFloat32);
  FieldChoices choices;
  choices.axes = {"height", "case", "channel", "time", "width"};
  choices.channels = {"a", "b", "c"};
  const auto found = source({{"data", x}}, choices);
  EXPECT_EQ(axes_of(found), (std::vector<std::string>{"height", "width"}));
  EXPECT_TRUE(torch::equal(found.values(2, 1)[0],
                           x.select(1, 2).permute({2, 0, 3, 1})));
}

// Neighbours across the ends, fixed ends, and ends that know nothing of one
// another.
TEST_F(DataFieldSource, GuessesBoundariesByTheEnds) {
  const auto at = torch::arange(24, torch::kFloat64) / 24;
  const auto shift = torch::rand({12, 6, 1}, torch::kFloat64);
  const auto boundary_of = [&](const Tensor& x) {
    return source({{"x", x}}).layout().axes[0].boundary;
  };
  using enum Boundary;
  EXPECT_EQ(boundary_of(torch::sin(6.283185307 * (at + shift))), kPeriodic);
  EXPECT_EQ(boundary_of(torch::sin(3.141592654 * (at + 2 * shift))), kOpen);
  EXPECT_EQ(boundary_of(torch::sin(3.141592654 * torch::arange(25) / 24) *
                        (1 + shift)),
            kWall);
}

TEST_F(DataFieldSource, FindsPlacesTimesAndNumbersOfCases) {
  const auto found = source(
      {{"u", random({12, 6, 16}, "u")},
       {"t", torch::arange(6, torch::kFloat64) * 0.5},
       {"x", torch::arange(16, torch::kFloat64) * 2},
       {"nu", random({12}, "nu")},
       {"beta", random({12}, "beta")}},
      {.array = "u", .axes = {}, .channels = {}, .boundaries = {"wall"}});
  EXPECT_EQ(found.layout().parameters,
            (std::vector<std::string>{"beta", "nu"}));
  EXPECT_EQ(found.parameters().sizes(), (std::vector<int64_t>{12, 2}));
  EXPECT_EQ(found.layout().times[5].item<double>(), 2.5);
  EXPECT_EQ(found.layout().axes[0].at[3].item<double>(), 6);
  EXPECT_EQ(found.layout().axes[0].boundary, Boundary::kWall);
}

// Arrays (cases, space…[, channels]) beside the only one that can be fields.
TEST_F(DataFieldSource, FindsConstantInputs) {
  const auto u = random({12, 6, 16, 9}, "u"), k = random({12, 16, 9}, "k"),
             force = random({12, 16, 9, 2}, "force");
  const Tensors all{{"u", u}, {"k", k}, {"force", force}};
  const auto found = source(all);
  EXPECT_EQ(found.layout().channels, std::vector<std::string>{"u"});
  EXPECT_EQ(found.layout().constants,
            (std::vector<std::string>{"force0", "force1", "k"}));
  EXPECT_TRUE(torch::equal(found.constants(3, 4),
                           torch::cat({force, k.unsqueeze(-1)}, -1)
                               .narrow(0, 3, 4)
                               .to(torch::kFloat32)));
  EXPECT_TRUE(
      torch::equal(found.values(0, 12), u.unsqueeze(-1).to(torch::kFloat32)));
  EXPECT_NE(found.describe().find("; constant inputs force0, force1, k;"),
            std::string::npos);
  // As a run names them afterwards, and a user does.
  for (const auto& names :
       {found.layout().constants, std::vector<std::string>{"k", "force"}}) {
    const auto again = source(all, {.channels = {"u"}, .constants = names});
    EXPECT_EQ(again.layout().constants, found.layout().constants);
  }
  const auto one = source(all, {.constants = {"k"}});
  EXPECT_EQ(one.layout().constants, std::vector<std::string>{"k"});
  EXPECT_NE(one.describe().find("not read: force0, force1"), std::string::npos);
  const auto none = source(all, {.constants = {"none"}});
  EXPECT_FALSE(none.constants(0, 1).defined());
  // Where channels are named, so must inputs be.
  EXPECT_TRUE(source(all, {.channels = {"u"}}).layout().constants.empty());
  // Axes in another order: cases first, then space as it is named.
  const auto turned =
      source({{"u", u.permute({3, 0, 1, 2})}, {"k", k.transpose(1, 2)}},
             {.axes = {"y", "case", "time", "x"}, .constants = {"k"}});
  EXPECT_TRUE(torch::equal(turned.constants(0, 12).squeeze(-1),
                           k.transpose(1, 2).to(torch::kFloat32)));
}

TEST_F(DataFieldSource, DoesNotGuessWhatMayBeTime) {
  const auto u = random({12, 16, 16}, "u"), k = random({12, 16}, "k");
  const auto found = source({{"u", u}, {"k", k}});
  EXPECT_TRUE(found.layout().constants.empty());
  EXPECT_NE(found.describe().find("it may be along time or along space"),
            std::string::npos)
      << found.describe();
  EXPECT_EQ(
      source({{"u", u}, {"k", k}}, {.constants = {"k"}}).layout().constants,
      std::vector<std::string>{"k"});
}

TEST_F(DataFieldSource, SaysWhatIsWrongWithConstantInputs) {
  const auto u = random({12, 6, 16}, "u");
  auto hole = random({12, 16}, "k");
  hole[7][3] = std::nan("");
  EXPECT_NE(testing::thrown<DataError>([&] {
              source({{"u", u}, {"k", hole}}).constants(0, 12);
            }).find("case 7 has a number of k that is not finite"),
            std::string::npos);
  EXPECT_NE(error_of<DataError>({{"u", u}, {"k", random({12, 15}, "k")}},
                                {.constants = {"k"}})
                .find("expected 'k' of shape (12, 16), or with up to 8 "
                      "channels behind, got (12, 15)"),
            std::string::npos);
  EXPECT_NE(error_of<ConfigError>({{"u", u}, {"kappa", random({12, 16}, "k")}},
                                  {.constants = {"kapa"}})
                .find("no kapa"),
            std::string::npos);
  EXPECT_NE(error_of<ConfigError>({{"u", u}, {"k", random({12, 16, 2}, "k")}},
                                  {.constants = {"k0"}})
                .find("k has k0, k1: name it, or all of them"),
            std::string::npos);
}

TEST_F(DataFieldSource, SaysWhatIsWrong) {
  const auto good = random({12, 6, 16}, "u");
  auto hole = good.clone();
  hole[3][2][1] = std::nan("");
  EXPECT_NE(testing::thrown<DataError>([&] {
              source({{"u", hole}}, {.boundaries = {"open"}}).values(0, 12);
            }).find("case 3, frame 2"),
            std::string::npos);
  EXPECT_NE(error_of<DataError>({{"u", good}, {"v", good}})
                .find("several arrays may be the fields: u, v"),
            std::string::npos);
  EXPECT_NE(error_of<DataError>({{"u", random({4, 5}, "u")}})
                .find("three axes or more"),
            std::string::npos);
  EXPECT_NE(error_of<DataError>(
                {{"u", good}, {"t", torch::tensor({0., 2., 1., 3., 4., 5.})}})
                .find("expected 't' to rise"),
            std::string::npos);
  EXPECT_NE(error_of<DataError>({{"u", good}}, {.axes = {"case", "x", "y"}})
                .find("expected axes named case and time"),
            std::string::npos);
  EXPECT_NE(error_of<DataError>({{"u", good}}, {.axes = {"case", "time"}})
                .find("has 3 axes, and data.axes names 2"),
            std::string::npos);
  EXPECT_NE(error_of<ConfigError>({{"u", good}}, {.boundaries = {"round"}})
                .find("expected periodic"),
            std::string::npos);
  EXPECT_NE(error_of<ConfigError>({{"u", good}}, {.channels = {"a", "b"}})
                .find("expected 1 names, got 2"),
            std::string::npos);
}

}  // namespace
}  // namespace propagator::data
