#include "propagator/report/field_series.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "propagator/core/error.h"
#include "testing.h"

namespace propagator::report {
namespace {

// One case of `frames` frames; pixel (0, 0) of a frame is its number.
FieldSeries counting(int64_t frames) {
  FieldSeries series;
  series.cases = {"a"};
  series.truth =
      torch::arange(frames).view({1, frames, 1, 1}).to(torch::kFloat32);
  series.prediction = series.truth + 0.5;
  for (int64_t t = 0; t < frames; ++t) series.times.push_back(10.0 * t);
  return series;
}

FieldSeries two_fields(const torch::Tensor& truth,
                       const torch::Tensor& prediction) {
  FieldSeries series;
  series.cases = {"first", "second"};
  series.times = {0};
  series.truth =
      torch::stack({torch::full({1, 1, 3}, 99.0), truth.view({1, 1, 3})});
  series.prediction =
      torch::stack({torch::full({1, 1, 3}, 99.0), prediction.view({1, 1, 3})});
  return series;
}

TEST(ReportFieldSeries, ThinningKeepsBothEnds) {
  const auto few = counting(101).thinned(5);
  EXPECT_EQ(few.times, (std::vector<double>{0, 250, 500, 750, 1000}));
  EXPECT_TRUE(few.truth.flatten().equal(
      torch::tensor({0, 25, 50, 75, 100}, torch::kFloat32)));
  EXPECT_TRUE(few.prediction.equal(few.truth + 0.5));
  EXPECT_EQ(few.cases, std::vector<std::string>{"a"});
  const auto all_but_one = counting(10).thinned(9);
  EXPECT_EQ(all_but_one.times.size(), 9u);
  EXPECT_EQ(all_but_one.times.front(), 0);
  EXPECT_EQ(all_but_one.times.back(), 90);
  EXPECT_EQ(std::adjacent_find(all_but_one.times.begin(),
                               all_but_one.times.end(), std::greater_equal<>()),
            all_but_one.times.end());
}

TEST(ReportFieldSeries, FewFramesStay) {
  EXPECT_EQ(counting(7).thinned(7).times.size(), 7u);
  EXPECT_EQ(counting(1).thinned(1).times.size(), 1u);
  EXPECT_THROW(counting(7).thinned(1), UsageError);
}

TEST(ReportFieldSeries, RangeIsOfBothFieldsInOneCase) {
  const auto series = two_fields(torch::tensor({1.0, 2.0, 3.0}),
                                 torch::tensor({1.0, -1.0, 3.5}));
  const auto range = range_of(series, 1);
  EXPECT_EQ(range.low, -1);
  EXPECT_EQ(range.high, 3.5);
  EXPECT_EQ(range.error, 3);
}

TEST(ReportFieldSeries, RangePassesOverWhatIsNotANumber) {
  const auto series = two_fields(torch::tensor({1.0, 2.0, double{NAN}}),
                                 torch::tensor({1.5, double{INFINITY}, 3.0}));
  const auto range = range_of(series, 1);
  EXPECT_EQ(range.low, 1);
  EXPECT_EQ(range.high, 3);
  EXPECT_EQ(range.error, 0.5);
}

TEST(ReportFieldSeries, RangeWithoutExtentIsWidened) {
  for (const double value : {0.0, -3.0, 1e-9, 300.0, double{NAN}}) {
    const auto field = torch::full({3}, value, torch::kFloat64);
    const auto range = range_of(two_fields(field, field), 1);
    EXPECT_LT(range.low, range.high) << value;
    EXPECT_GT(range.error, 0) << value;
    if (!std::isnan(value)) {
      EXPECT_LT(range.low, value);
      EXPECT_GT(range.high, value);
    }
  }
}

TEST(ReportFieldSeries, LabelHasTheUnit) {
  FieldSeries series;
  series.quantity = "temperature";
  EXPECT_EQ(series.label(), "temperature");
  series.unit = "K";
  EXPECT_EQ(series.label(), "temperature (K)");
}

}  // namespace
}  // namespace propagator::report
