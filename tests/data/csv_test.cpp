#include "propagator/data/csv.h"

#include <limits>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "testing.h"

namespace propagator::data {
namespace {

using testing::TemporaryFolder;
using testing::thrown;

class DataCsv : public ::testing::Test {
 protected:
  std::vector<Column> read(const std::string& text) const {
    write_file_atomically(path_, text);
    return read_csv(path_);
  }
  // What is wrong with the text, without the file's name.
  std::string fault(const std::string& text) const {
    const auto what = thrown<DataError>([&] { read(text); });
    const auto name = path_.string() + ": ";
    EXPECT_TRUE(what.starts_with(name)) << what;
    return what.substr(std::min(name.size(), what.size()));
  }

  TemporaryFolder folder_;
  fs::path path_ = folder_ / "a.csv";
};

torch::Tensor numbers(const std::vector<double>& values) {
  return torch::tensor(values, torch::kFloat64);
}

TEST_F(DataCsv, ReadsNamesAndNumbers) {
  for (const std::string text :
       {"x,t\n1,-2.5\n.5,3e-2\n", "x,t\n1,-2.5\n.5,3e-2",
        "\xef\xbb\xbfx,t\r\n1,-2.5\r\n.5,3e-2\r\n",
        " x ,\t\"t\"\n \"1\" , -2.5\n+.5,3E-2 \n"}) {
    const auto columns = read(text);
    ASSERT_EQ(columns.size(), 2u) << text;
    EXPECT_EQ(columns[0].name, "x");
    EXPECT_EQ(columns[1].name, "t");
    EXPECT_TRUE(torch::equal(columns[0].values, numbers({1, 0.5}))) << text;
    EXPECT_TRUE(torch::equal(columns[1].values, numbers({-2.5, 0.03}))) << text;
  }
}

TEST_F(DataCsv, RoundTripOfEveryNumberAndName) {
  const auto wide = torch::cat(
      {testing::random({50}, "csv"),
       numbers({0, 1e300, -1.0 / 3, std::numeric_limits<double>::min(),
                std::numeric_limits<double>::max()})});
  const auto narrow = (wide.slice(0, 0, 50) / 3).to(torch::kFloat32);
  const std::vector<std::string> names = {"d(u*u_x, x)", "a \"b\"", " c "};
  write_csv(path_, {{names[0], wide.slice(0, 0, 50)},
                    {names[1], narrow},
                    {names[2], wide.slice(0, 5)}});
  const auto columns = read_csv(path_);
  ASSERT_EQ(columns.size(), 3u);
  for (size_t c = 0; c < 3; ++c) EXPECT_EQ(columns[c].name, names[c]);
  EXPECT_TRUE(torch::equal(columns[0].values, wide.slice(0, 0, 50)));
  EXPECT_TRUE(torch::equal(columns[1].values.to(torch::kFloat32), narrow));
  EXPECT_TRUE(torch::equal(columns[2].values, wide.slice(0, 5)));
}

TEST_F(DataCsv, WritesFewDigits) {
  write_csv(path_, {{"x", numbers({0.1, 2})},
                    {"u", torch::tensor({0.1f, -0.0625f}, torch::kFloat32)}});
  EXPECT_EQ(read_file(path_), "x,u\n0.1,0.1\n2,-0.0625\n");
  EXPECT_THROW(write_csv(path_, {{"x", numbers({1})}, {"t", numbers({1, 2})}}),
               std::invalid_argument);
}

TEST_F(DataCsv, SaysWhereANumberIsWrong) {
  EXPECT_EQ(fault("x,t\n1,2\n3,four\n"),
            "line 3, column 2: expected a finite number for 't', got 'four'");
  EXPECT_EQ(fault("x,t\n1,2\n3\n"),
            "line 3, column 2: expected a finite number for 't', got nothing");
  EXPECT_EQ(fault("x,t\n,2\n"),
            "line 2, column 1: expected a finite number for 'x', got ''");
  EXPECT_EQ(fault("x,t\n1,2,3\n"),
            "line 2, column 3: expected the end of the line behind 2 numbers, "
            "got '3'");
  EXPECT_EQ(fault("x,t\n1,2\n\n3,4\n"),
            "line 3, column 1: expected a finite number for 'x', got ''");
  for (const std::string number : {"nan", "NaN", "inf", "-inf", "1e999", "1 2",
                                   "0x10", "--1", "+-1", "1.5f", "+"}) {
    EXPECT_TRUE(fault("t\n" + number + "\n").starts_with("line 2, column 1"))
        << number;
  }
}

TEST_F(DataCsv, CellsOfSomeColumnsMayBeEmpty) {
  const auto read = [](const std::string& text) {
    return from_csv(text, "a.csv", {"u", "q"});
  };
  const auto columns = read("x,u,q\n1,,4\n2,nan,\n3, NaN ,\"\"\n4,5,6\n");
  EXPECT_TRUE(torch::equal(columns[0].values, numbers({1, 2, 3, 4})));
  EXPECT_TRUE(torch::equal(torch::isnan(columns[1].values),
                           torch::tensor({true, true, true, false})));
  EXPECT_TRUE(torch::equal(torch::isnan(columns[2].values),
                           torch::tensor({false, true, true, false})));
  EXPECT_EQ(columns[1].values[3].item<double>(), 5);
  EXPECT_EQ(columns[2].values[0].item<double>(), 4);
  // Others are as strict as ever, and so is what is neither empty nor nan.
  for (const auto& [text, what] :
       {std::pair{"x,u\n,1\n",
                  "line 2, column 1: expected a finite number for 'x', got ''"},
        std::pair{"x,u\n1,2\nnan,1\n",
                  "line 3, column 1: expected a finite number for 'x', got "
                  "'nan'"},
        std::pair{"x,u\n1,inf\n",
                  "line 2, column 2: expected a finite number for 'u', got "
                  "'inf'"},
        std::pair{"x,u\n1,-\n",
                  "line 2, column 2: expected a finite number for 'u', got "
                  "'-'"},
        std::pair{"x,u\n1\n",
                  "line 2, column 2: expected a finite number for 'u', got "
                  "nothing"}}) {
    EXPECT_EQ(testing::thrown<DataError>([&] { read(text); }),
              std::string("a.csv: ") + what);
  }
}

TEST_F(DataCsv, RefusesBadNames) {
  EXPECT_EQ(fault("x,,t\n1,2,3\n"),
            "line 1, column 2: expected a name, got nothing");
  EXPECT_EQ(fault("x,t,x\n1,2,3\n"),
            "line 1, column 3: there is a 'x' already");
  EXPECT_EQ(fault("1,1,3\n4,5,6\n"),
            "line 1, column 1: expected the names of the columns, got numbers");
  EXPECT_EQ(fault("x,\"t\n1,2\n"),
            "line 1, column 2: expected a closing quote on this line");
  EXPECT_EQ(fault("x,\"t\"y\n1,2\n"),
            "line 1, column 2: expected a comma behind the closing quote");
}

TEST_F(DataCsv, RefusesAnEmptyFile) {
  EXPECT_EQ(fault(""),
            "line 1: expected the names of the columns, the file ends");
  EXPECT_EQ(fault("x,t\n"),
            "line 2: expected numbers below the names, the file ends");
  EXPECT_EQ(fault("\n"), "line 1, column 1: expected a name, got nothing");
  EXPECT_THROW(read_csv(folder_ / "missing.csv"), FileError);
}

}  // namespace
}  // namespace propagator::data
