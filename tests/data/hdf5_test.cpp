// Files of other programs, which may have anything anywhere.

#include <hdf5.h>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/data/tensor_file.h"
#include "testing.h"

namespace propagator::data {
namespace {

using testing::TemporaryFolder;

class DataHdf5 : public ::testing::Test {
 protected:
  void SetUp() override {
    save_tensors(path(), {{{"x", torch::ones(2)}}, ""});
    file_ = H5Fopen(path().c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    ASSERT_GE(file_, 0);
  }
  fs::path path() const { return folder_ / "a.h5"; }

  // An attribute `note` of `count` strings of `size` bytes; size 0: as long as
  // each is.
  void write_note(hsize_t count, size_t size) {
    const hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, size == 0 ? H5T_VARIABLE : size);
    const hid_t space = H5Screate_simple(1, &count, nullptr);
    const hid_t note =
        H5Acreate2(file_, "note", type, space, H5P_DEFAULT, H5P_DEFAULT);
    const std::string fixed(count * size, 'x');
    const std::vector<const char*> texts(count, "text");
    const void* values = size == 0 ? static_cast<const void*>(texts.data())
                                   : static_cast<const void*>(fixed.data());
    EXPECT_GE(H5Awrite(note, type, values), 0);
    H5Aclose(note);
    H5Sclose(space);
    H5Tclose(type);
  }
  void close() { H5Fclose(file_); }

  TemporaryFolder folder_;
  hid_t file_ = -1;
};

TEST_F(DataHdf5, ANoteMayBeAnArrayOfOneText) {
  write_note(1, 16);
  close();
  EXPECT_EQ(TensorReader::open(path())->note(), std::string(16, 'x'));
}

TEST_F(DataHdf5, ANoteOfManyTextsIsNone) {
  write_note(4000, 16);
  close();
  EXPECT_EQ(TensorReader::open(path())->note(), "");
}

TEST_F(DataHdf5, ANoteOfManyTextsOfAnyLengthIsNone) {
  write_note(2000, 0);
  close();
  EXPECT_EQ(TensorReader::open(path())->note(), "");
}

TEST_F(DataHdf5, ALoneNumberHasNoRows) {
  const hid_t space = H5Screate(H5S_SCALAR);
  H5Dclose(H5Dcreate2(file_, "scalar", H5T_IEEE_F32LE, space, H5P_DEFAULT,
                      H5P_DEFAULT, H5P_DEFAULT));
  H5Sclose(space);
  close();
  const auto reader = TensorReader::open(path());
  EXPECT_TRUE(reader->shape("scalar").empty());
  EXPECT_THROW(reader->rows("scalar", 0, 1), DataError);
}

TEST_F(DataHdf5, OtherFilesAreNotOpened) {
  save_tensors(folder_ / "other.h5", {{{"secret", torch::ones(2)}}, ""});
  H5Lcreate_external("other.h5", "secret", file_, "linked", H5P_DEFAULT,
                     H5P_DEFAULT);
  close();
  EXPECT_EQ(TensorReader::open(path())->shapes().size(), 1u);
}

// Neither by external storage nor as a view may a file make us open another.
TEST_F(DataHdf5, NumbersInAnotherFileAreRefused) {
  const hsize_t two = 2;
  save_tensors(folder_ / "other.h5", {{{"x", torch::ones(2)}}, ""});
  const auto other = (folder_ / "other.h5").string();
  const hid_t external = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_external(external, other.c_str(), 0, two * sizeof(double));
  const hid_t view = H5Pcreate(H5P_DATASET_CREATE);
  const hid_t space = H5Screate_simple(1, &two, nullptr);
  H5Pset_virtual(view, space, other.c_str(), "x", space);
  close();
  for (const auto version : {H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST}) {
    for (const hid_t how : {external, view}) {
      const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
      H5Pset_libver_bounds(access, version, H5F_LIBVER_LATEST);
      file_ = H5Fcreate(path().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
      const hid_t set = H5Dcreate2(file_, "secret", H5T_IEEE_F64LE, space,
                                   H5P_DEFAULT, how, H5P_DEFAULT);
      ASSERT_GE(set, 0);
      H5Dclose(set);
      H5Pclose(access);
      close();
      EXPECT_EQ(testing::thrown<DataError>([&] { TensorReader::open(path()); }),
                path().string() +
                    ": the numbers of 'secret' are in another file, which is "
                    "not opened");
    }
  }
  H5Sclose(space);
  H5Pclose(external);
  H5Pclose(view);
}

}  // namespace
}  // namespace propagator::data
