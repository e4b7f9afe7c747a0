#include "propagator/explain/encodings.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "propagator/core/error.h"
#include "testing.h"

namespace propagator::explain {
namespace {

// The table of the heat-plate paper's section 2.7, as it is printed: features 3
// and 2 are cut after four digits, 1 and 0 rounded.
constexpr std::array<std::array<double, 4>, 16> kPaper{{
    {1.000, 0.0000, 1.0000, 0.0000},
    {0.9999, 0.0099, 0.5403, 0.8415},
    {0.9998, 0.0199, -0.4161, 0.9093},
    {0.9995, 0.0299, -0.9900, 0.1411},
    {0.9992, 0.0399, -0.6536, -0.7568},
    {0.9987, 0.0499, 0.2837, -0.9589},
    {0.9982, 0.0599, 0.9602, -0.2794},
    {0.9975, 0.0699, 0.7539, 0.6570},
    {0.9968, 0.0799, -0.1455, 0.9894},
    {0.9959, 0.0898, -0.9111, 0.4121},
    {0.9950, 0.0998, -0.8391, -0.5440},
    {0.9939, 0.1097, 0.0044, -1.0000},
    {0.9928, 0.1197, 0.8439, -0.5366},
    {0.9915, 0.1296, 0.9074, 0.4202},
    {0.9902, 0.1395, 0.1367, 0.9906},
    {0.9887, 0.1494, -0.7597, 0.6503},
}};

TEST(ExplainEncodings, ArePaperTableToFourDigits) {
  const auto rows = encoding_numbers(16, 4).at("encodings");
  const auto table = encoding_table(16, 4).rows();
  ASSERT_EQ(table.size(), 17u);
  EXPECT_EQ(table[0], (std::vector<std::string>{"position", "3: cos(p/100)",
                                                "2: sin(p/100)", "1: cos(p)",
                                                "0: sin(p)"}));
  for (size_t p = 0; p < 16; ++p) {
    for (size_t column = 0; column < 4; ++column) {
      const double value = rows.at(p).at(3 - column).get<double>();
      const double printed =
          column < 2 ? std::floor(value * 1e4) : std::round(value * 1e4);
      EXPECT_EQ(printed, std::round(kPaper[p][column] * 1e4))
          << "position " << p << " column " << column;
      // Ours are all rounded.
      EXPECT_EQ(table[p + 1][column + 1], fmt::format("{:.4f}", value));
    }
  }
}

TEST(ExplainEncodings, PairsHaveGeometricFrequencies) {
  const auto rows = encoding_numbers(9, 8).at("encodings");
  for (int p = 0; p < 9; ++p) {
    for (int i = 0; i < 8; ++i) {
      const double angle = p / std::pow(10000.0, (i - i % 2) / 8.0);
      EXPECT_NEAR(rows.at(p).at(i).get<double>(),
                  i % 2 == 0 ? std::sin(angle) : std::cos(angle), 1e-12);
    }
  }
}

TEST(ExplainEncodings, RefusesWhatHasNoPairs) {
  EXPECT_THROW(encoding_table(16, 5), UsageError);
  EXPECT_THROW(encoding_table(0, 4), UsageError);
  EXPECT_THROW(encoding_numbers(4, 1 << 20), UsageError);
}

}  // namespace
}  // namespace propagator::explain
