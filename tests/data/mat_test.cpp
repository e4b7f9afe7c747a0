#include "propagator/data/mat.h"

#include <hdf5.h>

#include <fstream>

#include "mat_files.h"
#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/data/axes.h"
#include "testing.h"

namespace propagator::data {
namespace {

using testing::MatKind;
using testing::TemporaryFolder;
using testing::thrown;

class DataMat : public ::testing::TestWithParam<MatKind> {
 protected:
  void SetUp() override {
    if (!has_matio()) GTEST_SKIP() << "built without matio";
  }
  fs::path path() const { return folder_ / "a.mat"; }

  TemporaryFolder folder_;
};
std::string name_of_kind(const ::testing::TestParamInfo<MatKind>& info) {
  if (info.param == MatKind::k73) return "v73";
  return info.param == MatKind::k5 ? "v5" : "compressed";
}
INSTANTIATE_TEST_SUITE_P(DataMat, DataMat,
                         ::testing::Values(MatKind::k5, MatKind::kCompressed5,
                                           MatKind::k73),
                         name_of_kind);

// a[i][j][k] must be MATLAB's A(i+1, j+1, k+1), which it stores with i fastest.
TEST_P(DataMat, ArraysHaveTheirShapeInTheOrderOfTheirIndices) {
  const Tensors written{
      {"cube", torch::arange(24, torch::kFloat64).reshape({2, 3, 4})},
      {"matrix", testing::random({5, 2}, "matrix")},
      {"single", testing::random({3, 2}, "single").to(torch::kFloat32)},
      {"whole", torch::arange(-3, 3, torch::kInt32).reshape({3, 2})},
      {"bytes", torch::tensor({{0, 1, 255}}, torch::kUInt8)},
      {"column", testing::random({4}, "column")}};
  testing::write_mat(path(), written, GetParam());
  const auto read = load_tensors(path()).tensors;
  ASSERT_EQ(read.size(), written.size());
  for (const auto& [name, array] : written) {
    const auto expected = array.dim() == 1 ? array.unsqueeze(1) : array;
    ASSERT_EQ(read.at(name).sizes(), expected.sizes()) << name;
    EXPECT_TRUE(torch::equal(read.at(name).to(torch::kFloat64),
                             expected.to(torch::kFloat64)))
        << name;
    EXPECT_TRUE(read.at(name).is_contiguous()) << name;
  }
  EXPECT_EQ(read.at("single").scalar_type(), torch::kFloat32);
  EXPECT_EQ(read.at("cube").scalar_type(), torch::kFloat64);
  const auto reader = TensorReader::open(path());
  EXPECT_TRUE(torch::equal(reader->rows("cube", 1, 1),
                           written.at("cube").slice(0, 1, 2)));
  EXPECT_EQ(reader->note(), "");
}

TEST_P(DataMat, WhatIsNoArrayOfRealNumbersIsNamedUnread) {
  testing::write_mat_with_others(path(), GetParam());
  const auto reader = TensorReader::open(path());
  EXPECT_EQ(reader->all("a").item<double>(), 2.5);
  const auto unread = reader->unread();
  for (const char* name : {"complex", "cell"}) {
    EXPECT_EQ(std::ranges::count(unread, name), 1) << name;
    EXPECT_FALSE(reader->shapes().contains(name)) << name;
  }
}

TEST_P(DataMat, AFileThatWasCutIsDamaged) {
  testing::write_mat(
      path(),
      {{"a", testing::random({40, 5}, "a")}, {"b", testing::random({7}, "b")}},
      GetParam());
  const auto whole = read_file(path());
  for (size_t n = 0; n < whole.size(); n += 1 + whole.size() / 60) {
    // Behind the last number of the last array there may be nothing of HDF5.
    if (GetParam() == MatKind::k73 && n > whole.size() / 2) break;
    if (GetParam() != MatKind::k73 && n == 128) continue;  // has no variable
    std::ofstream(path(), std::ios::binary) << whole.substr(0, n);
    EXPECT_THROW(load_tensors(path()), DataError) << n;
  }
}

TEST_P(DataMat, DamageIsAnErrorOfOurs) {
  testing::write_mat(path(), {{"a", testing::random({4, 5}, "a")}}, GetParam());
  const auto whole = read_file(path());
  for (size_t n = 124; n < std::min<size_t>(whole.size(), 700); n += 3) {
    auto bytes = whole;
    bytes[n] = static_cast<char>(~bytes[n]);
    std::ofstream(path(), std::ios::binary) << bytes;
    try {
      load_tensors(path());
    } catch (const RuntimeError&) {
    }
  }
}

// Version 7.3 takes no matio: HDF5 behind 512 bytes, all axes reversed.
TEST(DataMat73, IsReadByOurOwnReader) {
  H5dont_atexit();  // as our own reader, before anything else
  const TemporaryFolder folder;
  const auto path = folder / "a.mat";
  const hid_t made = H5Pcreate(H5P_FILE_CREATE);
  H5Pset_userblock(made, 512);
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, made, H5P_DEFAULT);
  const auto array = testing::random({2, 3, 4}, "array");
  const auto stored = with_axes_reversed(array).contiguous();
  const hsize_t sides[] = {4, 3, 2};
  const auto add = [&](const char* name) {
    const hid_t space = H5Screate_simple(3, sides, nullptr);
    const hid_t set = H5Dcreate2(file, name, H5T_IEEE_F64LE, space, H5P_DEFAULT,
                                 H5P_DEFAULT, H5P_DEFAULT);
    H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT,
             stored.data_ptr());
    H5Sclose(space);
    return set;
  };
  H5Dclose(add("u"));
  const hid_t empty = add("nothing"), one = H5Screate(H5S_SCALAR);
  H5Aclose(H5Acreate2(empty, "MATLAB_empty", H5T_STD_U8LE, one, H5P_DEFAULT,
                      H5P_DEFAULT));
  H5Sclose(one);
  H5Dclose(empty);
  H5Fclose(file);
  H5Pclose(made);
  std::string header(128, ' ');
  header.replace(0, 19, "MATLAB 7.3 MAT-file");
  header.replace(124, 4, std::string("\0\2IM", 4));
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << header;
  const auto reader = TensorReader::open(path);
  EXPECT_TRUE(torch::equal(reader->all("u"), array));
  EXPECT_EQ(reader->unread(), std::vector<std::string>{"nothing"});
}

TEST(DataMatFile, OfNoVersionThatIsKnownIsRefused) {
  const TemporaryFolder folder;
  const auto path = folder / "a.mat";
  for (const auto& bytes : {std::string(), std::string("x,t\n1,2\n"),
                            std::string(200, '\0'), std::string(200, 'M')}) {
    std::ofstream(path, std::ios::binary) << bytes;
    const auto what = thrown<DataError>([&] { load_tensors(path); });
    EXPECT_NE(what.find("not a .mat file of version 5 or 7.3"),
              std::string::npos)
        << what;
  }
  EXPECT_THROW(load_tensors(folder / "none.mat"), FileError);
}

TEST(DataMatFile, IsNotWritten) {
  try {
    save_tensors("a.mat", {{{"x", torch::ones(2)}}, ""});
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_EQ(error.hint(), "a .mat file is read, not written");
  }
}

TEST(DataMatFile, WithoutMatioNamesThePackage) {
  if (has_matio()) GTEST_SKIP() << "built with matio";
  const TemporaryFolder folder;
  std::string header(128, ' ');
  header.replace(124, 4, std::string("\0\1IM", 4));
  std::ofstream(folder / "a.mat", std::ios::binary) << header;
  try {
    load_tensors(folder / "a.mat");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(error.hint().find("libmatio-dev"), std::string::npos);
  }
}

}  // namespace
}  // namespace propagator::data
