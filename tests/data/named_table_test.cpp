#include "propagator/data/named_table.h"

#include <cmath>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/data/npz.h"
#include "propagator/data/tensor_file.h"
#include "testing.h"

namespace propagator::data {
namespace {

using testing::TemporaryFolder;
using testing::thrown;

const std::vector<std::string> kVariables{"x", "t"};

void write(const std::filesystem::path& path,
           const std::vector<Column>& columns) {
  write_table(path, columns, "");
}

class DataNamedTableFormats : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string(GetParam()) == ".npz" && !data::has_npz()) {
      GTEST_SKIP() << "built without libzip";
    }
  }
  fs::path path() const { return folder_ / fmt::format("a{}", GetParam()); }

  TemporaryFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(Tasks, DataNamedTableFormats,
                         ::testing::Values(".csv", ".h5", ".npz"),
                         [](const auto& info) {
                           return std::string(info.param).substr(1);
                         });

TEST_P(DataNamedTableFormats, ReadsVariablesInTheirOwnOrder) {
  const auto x = testing::random({7}, "x"), t = testing::random({7}, "t");
  write(path(), {{"t", t}, {"u_x + 1", x * t}, {"x", x}});
  EXPECT_TRUE(
      torch::equal(read_points(path(), kVariables), torch::stack({x, t}, 1)));
  EXPECT_TRUE(
      torch::equal(read_points(path(), {"u_x + 1"}), (x * t).unsqueeze(1)));
}

TEST_P(DataNamedTableFormats, ArraysKeepTheShapeTheyHaveInCommon) {
  const auto x = testing::random({2, 3}, "x"), t = testing::random({2, 3}, "t");
  write(path(), {{"x", x}, {"t", t}});
  const auto points = torch::stack({x, t}, -1);
  const auto flat = points.flatten(0, 1);
  const bool is_table = path().extension() == ".csv";
  EXPECT_TRUE(
      torch::equal(read_points(path(), kVariables), is_table ? flat : points));
  fs::remove(path());
  write(path(), {{"x", x}, {"t", t.flatten()}});
  EXPECT_TRUE(torch::equal(read_points(path(), kVariables), flat));
}

TEST_P(DataNamedTableFormats, ANameThatComesAgainIsWrittenOnce) {
  const auto x = testing::random({3}, "x");
  write(path(), {{"x", x}, {"u", x * 2}, {"x", x}});
  EXPECT_TRUE(torch::equal(read_points(path(), {"u", "x"}),
                           torch::stack({x * 2, x}, 1)));
}

TEST_P(DataNamedTableFormats, AMissingVariableNamesThoseThereAre) {
  write(path(), {{"x", torch::ones(2)}, {"y", torch::ones(2)}});
  const auto what = thrown<DataError>([&] { read_points(path(), kVariables); });
  EXPECT_NE(what.find("named 't', it has x, y"), std::string::npos) << what;
}

TEST_P(DataNamedTableFormats, RefusesWhatIsNoPoint) {
  const auto one = torch::ones(2);
  write(path(), {{"x", one / 0}, {"t", one}});
  EXPECT_THROW(read_points(path(), kVariables), DataError);
  write(path(), {{"x", one.slice(0, 2)}, {"t", one.slice(0, 2)}});
  EXPECT_THROW(read_points(path(), kVariables), DataError);
  fs::remove(path());
  EXPECT_THROW(read_points(path(), kVariables), FileError);
}

TEST(DataNamedTable, EndingDecides) {
  for (const char* name : {"a.csv", "a.h5", "a.hdf5", "a.npz"}) {
    EXPECT_NO_THROW(expect_table(name));
    EXPECT_NO_THROW(expect_written_table(name));
  }
  EXPECT_NO_THROW(expect_table("a.mat"));
  EXPECT_EQ(thrown<UsageError>([] { expect_table("a.txt"); }),
            "a.txt: expected a file name that ends in .csv, .h5, .hdf5, .npz "
            "or .mat");
  for (const std::string name : {"a.txt", "a.mat"}) {
    EXPECT_EQ(thrown<UsageError>([&] { expect_written_table(name); }),
              name +
                  ": expected a file name that ends in .csv, .h5, .hdf5 or "
                  ".npz");
  }
}

TEST(DataNamedTable, CsvKeepsTheOrderOfItsColumns) {
  const TemporaryFolder folder;
  const auto one = torch::ones(1, torch::kFloat64);
  write(folder / "a.csv", {{"x", one}, {"t", 2 * one}, {"a", 3 * one}});
  EXPECT_EQ(read_file(folder / "a.csv"), "x,t,a\n1,2,3\n");
}

TEST(DataNamedTable, NamesThatAreNearlyRightAreSuggested) {
  const TemporaryFolder folder;
  const auto one = torch::ones(2);
  write(folder / "a.csv",
        {{"X", one}, {"t", one}, {"presure", one}, {"site", one}});
  const auto warned = [&](const std::vector<std::string>& names) {
    testing::Lines lines;
    const ObserverScope scope(lines);
    read_table(folder / "a.csv", {"t"}, names);
    return lines.warnings;
  };
  EXPECT_EQ(warned({"x", "pressure", "u"}),
            std::vector<std::string>{
                (folder / "a.csv").string() +
                ": not used: X (did you mean x?), presure (did you mean "
                "pressure?), site"});
  EXPECT_TRUE(warned({"X", "presure", "site"}).empty());
  try {
    read_table(folder / "a.csv", {"x"});
    FAIL();
  } catch (const DataError& error) {
    EXPECT_EQ(error.hint(), "is X meant? Then call it x");
  }
}

TEST(DataNamedTable, APointThatIsNoneNamesItsRow) {
  const TemporaryFolder folder;
  const auto x = torch::tensor({0., std::nan(""), 2.}, torch::kFloat64);
  data::save_tensors(folder / "a.h5", {{{"x", x}, {"t", torch::ones(3)}}, ""});
  const auto what =
      thrown<DataError>([&] { read_points(folder / "a.h5", kVariables); });
  EXPECT_NE(what.find("'x' has a value that is not finite, in row 2"),
            std::string::npos)
      << what;
}

TEST(DataNamedTable, ArraysMustHaveOneLength) {
  const TemporaryFolder folder;
  data::save_tensors(folder / "a.h5",
                     {{{"x", torch::ones(2)}, {"t", torch::ones(3)}}, ""});
  const auto what =
      thrown<DataError>([&] { read_points(folder / "a.h5", kVariables); });
  EXPECT_NE(what.find("expected 'x' and 't' of one length, got 2 and 3"),
            std::string::npos)
      << what;
}

}  // namespace
}  // namespace propagator::data
