#include "propagator/data/tensor_file.h"

#include <hdf5.h>
#include <sys/resource.h>
#include <torch/utils.h>

#include <csignal>
#include <cstdlib>
#include <fstream>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/data/npz.h"
#include "testing.h"

namespace propagator::data {
namespace {

using testing::TemporaryFolder;
using testing::thrown;

const std::string kNote = "{\"plate\": \"ü\",\n \"rows\": 26}";

// Element (i, j, …) counts 0, 1, 2 … in row-major order, plus a third.
torch::Tensor counted(torch::IntArrayRef shape, torch::ScalarType type) {
  int64_t count = 1;
  for (const int64_t n : shape) count *= n;
  return (torch::arange(count, torch::kFloat64) + 1.0 / 3).to(type).view(shape);
}

// Whatever format a file name stands for.
class DataTensorFormats : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string(GetParam()) == ".npz" && !has_npz()) {
      GTEST_SKIP() << "built without libzip";
    }
  }
  fs::path path() const { return folder_ / (std::string("a") + GetParam()); }

  TemporaryFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(DataEndings, DataTensorFormats,
                         ::testing::Values(".h5", ".hdf5", ".npz"),
                         [](const auto& info) {
                           return std::string(info.param).substr(1);
                         });

TEST_P(DataTensorFormats, RoundTrip) {
  for (const auto type : {torch::kFloat32, torch::kFloat64}) {
    const auto x = counted({4, 3, 2}, type);
    const auto turned = counted({3, 5}, type).t();
    const auto none = torch::empty({0, 2}, type);
    save_tensors(path(),
                 {{{"x", x}, {"turned", turned}, {"none", none}}, kNote});
    const auto again = load_tensors(path());
    EXPECT_EQ(again.note, kNote);
    ASSERT_EQ(again.tensors.size(), 3);
    EXPECT_EQ(again.tensors.at("x").scalar_type(), type);
    EXPECT_TRUE(torch::equal(again.tensors.at("x"), x));
    EXPECT_TRUE(torch::equal(again.tensors.at("turned"), turned));
    EXPECT_EQ(again.tensors.at("none").sizes(), none.sizes());
  }
}

TEST_P(DataTensorFormats, NoteMayBeAbsent) {
  save_tensors(path(), {{{"x", torch::ones(2)}}, ""});
  EXPECT_EQ(load_tensors(path()).note, "");
}

TEST_P(DataTensorFormats, RowsAreARange) {
  const auto x = counted({6, 2, 3}, torch::kFloat64);
  save_tensors(path(), {{{"x", x}}, ""});
  const auto reader = TensorReader::open(path());
  EXPECT_EQ(reader->shape("x"), (std::vector<int64_t>{6, 2, 3}));
  EXPECT_TRUE(torch::equal(reader->rows("x", 4, 2), x.narrow(0, 4, 2)));
  EXPECT_TRUE(torch::equal(reader->rows("x", 0, 1), x.narrow(0, 0, 1)));
  EXPECT_TRUE(torch::equal(reader->all("x"), x));
}

TEST_P(DataTensorFormats, RowsMayBeWrittenInAnyOrder) {
  const auto x = counted({5, 2}, torch::kFloat32);
  const auto writer = TensorWriter::create(path(), torch::kFloat32,
                                           {{"x", {5, 2}}, {"y", {1}}}, kNote);
  writer->write_rows("x", 3, x.narrow(0, 3, 2).to(torch::kFloat64));
  writer->write_rows("y", 0, torch::tensor({7.0}));
  writer->write_rows("x", 0, x.narrow(0, 0, 3));
  EXPECT_FALSE(fs::exists(path()));
  writer->close();
  const auto again = load_tensors(path());
  EXPECT_TRUE(torch::equal(again.tensors.at("x"), x));
  EXPECT_TRUE(torch::equal(again.tensors.at("y"), torch::tensor({7.0f})));
  EXPECT_EQ(again.note, kNote);
}

TEST_P(DataTensorFormats, UnclosedWriterLeavesTheOldFile) {
  save_tensors(path(), {{{"x", torch::ones(2)}}, ""});
  const auto old = read_file(path());
  {
    const auto writer =
        TensorWriter::create(path(), torch::kFloat32, {{"x", {5000}}}, kNote);
    writer->write_rows("x", 0, torch::zeros(5000));
  }
  EXPECT_EQ(read_file(path()), old);
  fs::remove(path());
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_P(DataTensorFormats, WriteToAnImpossiblePlaceFails) {
  const TensorFile content{{{"x", torch::ones(2)}}, ""};
  fs::create_directories(path() / "inside");  // a folder has the name
  EXPECT_THROW(save_tensors(path(), content), FileError);
  fs::remove_all(path());
  write_file_atomically(folder_ / "file", "");
  EXPECT_THROW(
      save_tensors(folder_ / "file" / path().filename().string(), content),
      FileError);
  fs::remove(folder_ / "file");
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_P(DataTensorFormats, FullDiskLeavesTheOldFile) {
  save_tensors(path(), {{{"x", torch::ones(2)}}, ""});
  const auto old = read_file(path());
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{16384, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limit);
  const TensorFile large{{{"x", torch::ones(100000)}}, ""};
  EXPECT_THROW(save_tensors(path(), large), FileError);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(read_file(path()), old);
  fs::remove(path());
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_P(DataTensorFormats, MissingFileIsAFileError) {
  EXPECT_EQ(thrown<FileError>([&] { load_tensors(path()); }),
            "cannot read " + path().string() + ": No such file");
}

TEST_P(DataTensorFormats, TruncationIsDamage) {
  save_tensors(path(), {{{"x", counted({40}, torch::kFloat64)}}, kNote});
  const auto bytes = read_file(path());
  for (size_t n = 0; n < bytes.size(); n += 31) {
    write_file_atomically(path(), bytes.substr(0, n));
    EXPECT_THROW(load_tensors(path()), DataError) << n;
  }
  write_file_atomically(path(), bytes.substr(0, bytes.size() - 1));
  EXPECT_THROW(load_tensors(path()), DataError);
}

TEST_P(DataTensorFormats, MissingArrayNamesThoseThereAre) {
  save_tensors(path(), {{{"x", torch::ones(2)}, {"y", torch::ones(1)}}, ""});
  const auto reader = TensorReader::open(path());
  const auto expected =
      path().string() + ": expected an array named 'z', it has x, y";
  EXPECT_EQ(thrown<DataError>([&] { reader->all("z"); }), expected);
  EXPECT_EQ(thrown<DataError>([&] { reader->rows("z", 0, 1); }), expected);
}

TEST(DataTensorFile, EndingDecides) {
  EXPECT_EQ(tensor_format("a.b/c.h5"), TensorFormat::kHdf5);
  EXPECT_EQ(tensor_format("c.hdf5"), TensorFormat::kHdf5);
  EXPECT_EQ(tensor_format("c.h5.npz"), TensorFormat::kNpz);
  EXPECT_EQ(tensor_format("c.mat"), TensorFormat::kMat);
  EXPECT_EQ(written_format("c.npz"), TensorFormat::kNpz);
  for (const std::string name : {"c", "c.npy", "c.H5", "h5", ".npz", ""}) {
    EXPECT_EQ(thrown<UsageError>([&] { load_tensors(name); }),
              name +
                  ": expected a file name that ends in .h5, .hdf5, .npz or "
                  ".mat");
    EXPECT_EQ(thrown<UsageError>([&] { save_tensors(name, {}); }),
              name + ": expected a file name that ends in .h5, .hdf5 or .npz");
  }
}

TEST(DataTensorFile, Hdf5ThatCannotBeginLeavesNothing) {
  const TemporaryFolder folder;  // no group `a` for the array's name
  EXPECT_THROW(TensorWriter::create(folder / "a.h5", torch::kFloat32,
                                    {{"a/b", {2}}}, ""),
               UsageError);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(DataTensorFile, Hdf5RowsBeyondTheEndAreDamage) {
  const TemporaryFolder folder;
  save_tensors(folder / "a.h5", {{{"x", torch::ones(4)}}, ""});
  const auto reader = TensorReader::open(folder / "a.h5");
  EXPECT_THROW(reader->rows("x", 3, 2), DataError);
}

// Or memory would be asked for by whoever wrote the shape.
TEST(DataTensorFile, Hdf5ArraysThatAreNotInTheFileAreDamage) {
  const TemporaryFolder folder;
  const auto path = folder / "a.h5";
  TensorWriter::create(path, torch::kFloat32, {{"x", {1 << 20, 1 << 20}}}, "")
      ->close();
  const auto reader = TensorReader::open(path);
  EXPECT_EQ(reader->shape("x").at(1), 1 << 20);
  EXPECT_THROW(reader->all("x"), DataError);
}

// Of a format without checksums; the byte makes HDF5 ask for 4 GB for a chunk.
TEST(DataTensorFile, Hdf5ThatWouldFillTheMemoryIsDamage) {
  const TemporaryFolder folder;
  const auto path = folder / "a.h5";
  const auto tests = fs::path(__FILE__).parent_path().parent_path();
  auto bytes = read_file(tests / "fuzz/earliest.h5");
  write_file_atomically(path, bytes);
  EXPECT_EQ(load_tensors(path).tensors.at("b")[39].item<double>(), 39);
  bytes.at(879) = '\xff';
  write_file_atomically(path, bytes);
  EXPECT_EQ(thrown<DataError>([&] { TensorReader::open(path); }),
            path.string() + " is not an HDF5 file, or is damaged");
}

// NumPy as the other side; each test gives it a script.
class DataNpz : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_npz()) GTEST_SKIP() << "built without libzip";
    if (std::system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") != 0) {
      GTEST_SKIP() << "no /usr/bin/python3 with numpy";
    }
  }
  int python(const std::string& script) const {
    std::ofstream(folder_ / "script.py")
        << "import io, zipfile\nimport numpy as np\n"
        << script;
    return std::system(
        ("cd '" + folder_.path().string() + "' && /usr/bin/python3 script.py")
            .c_str());
  }

  TemporaryFolder folder_;
};

TEST_F(DataNpz, ReadsWhatNumpyWrites) {
  ASSERT_EQ(python("x = np.arange(24.0).reshape(2, 3, 4) + 1 / 3\n"
                   "parts = dict(x=x, f=np.asfortranarray(x),\n"
                   "             s=x.astype('f4'), i=np.arange(3),\n"
                   "             v=np.arange(3.0))\n"
                   "np.savez('a.npz', **parts)\n"
                   "np.savez_compressed('b.npz', **parts)\n"),
            0);
  const auto x = counted({2, 3, 4}, torch::kFloat64);
  for (const std::string name : {"a.npz", "b.npz"}) {
    const auto content = load_tensors(folder_ / name);
    ASSERT_EQ(content.tensors.size(), 5) << name;
    EXPECT_TRUE(torch::equal(content.tensors.at("x"), x)) << name;
    EXPECT_TRUE(torch::equal(content.tensors.at("f"), x)) << name;
    EXPECT_TRUE(torch::equal(content.tensors.at("s"), x.to(torch::kFloat32)));
    EXPECT_TRUE(torch::equal(content.tensors.at("i"), torch::arange(3)));
    EXPECT_TRUE(torch::equal(content.tensors.at("v"),
                             torch::arange(3, torch::kFloat64)));
  }
}

TEST_F(DataNpz, NumpyReadsWhatWeWrite) {
  save_tensors(folder_ / "a.npz", {{{"x", counted({2, 3, 4}, torch::kFloat64)},
                                    {"s", counted({5}, torch::kFloat32)}},
                                   kNote});
  EXPECT_EQ(python("a = np.load('a.npz')\n"
                   "x = np.arange(24.0).reshape(2, 3, 4) + 1 / 3\n"
                   "assert sorted(a.files) == ['note', 's', 'x']\n"
                   "assert a['x'].dtype == np.float64\n"
                   "assert np.array_equal(a['x'], x)\n"
                   "assert a['s'].dtype == np.float32\n"
                   "assert np.array_equal(a['s'], x.ravel()[:5].astype('f4'))\n"
                   "note = '{\"plate\": \"\\u00fc\",\\n \"rows\": 26}'\n"
                   "assert a['note'].tobytes().decode() == note\n"),
            0);
}

TEST_F(DataNpz, RefusesWhatItCannotRead) {
  // Another byte order, text, and a shape whose size in bytes wraps to zero.
  ASSERT_EQ(python("np.savez('big.npz', x=np.arange(3, dtype='>f4'))\n"
                   "np.savez('text.npz', x=np.array(['a']))\n"
                   "head = (\"{'descr': '<f4', 'fortran_order': False, \"\n"
                   "        \"'shape': (4294967296, 4294967296), }\\n\")\n"
                   "z = zipfile.ZipFile('wrap.npz', 'w')\n"
                   "z.writestr('x.npy', b'\\x93NUMPY\\x01\\x00' +\n"
                   "           bytes([len(head), 0]) + head.encode())\n"
                   "z.close()\n"),
            0);
  for (const std::string name : {"big.npz", "text.npz", "wrap.npz"}) {
    EXPECT_THROW(load_tensors(folder_ / name), DataError) << name;
  }
}

TEST(DataTensorFile, AnArrayThatTheZipRefusesIsNotLeftOut) {
  if (!has_npz()) GTEST_SKIP() << "built without libzip";
  const TemporaryFolder folder;
  const TensorFile content{{{"\xff\xfe", torch::ones(2)}}, ""};
  EXPECT_THROW(save_tensors(folder / "a.npz", content), FileError);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(DataTensorFile, NpzWithAFlippedBitIsDamage) {
  if (!has_npz()) GTEST_SKIP() << "built without libzip";
  const TemporaryFolder folder;
  save_tensors(folder / "a.npz", {{{"x", torch::full({64}, 1.0)}}, ""});
  auto bytes = read_file(folder / "a.npz");
  const auto value = std::string("\x00\x00\x80\x3f", 4);
  bytes[bytes.find(value + value) + 5] ^= 1;  // the zip has a checksum of it
  write_file_atomically(folder / "a.npz", bytes);
  EXPECT_THROW(load_tensors(folder / "a.npz"), DataError);
}

// As other programs write it: arrays in groups, a text, an empty group.
TEST(DataHdf5Groups, ArraysInGroupsHaveTheirPath) {
  const TemporaryFolder folder;
  const auto path = folder / "groups.h5";
  const hid_t file =
      H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hsize_t two = 2;
  const hid_t space = H5Screate_simple(1, &two, nullptr);
  const hid_t group =
      H5Gcreate2(file, "flow", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t inner =
      H5Gcreate2(group, "late", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const double values[] = {3, 5};
  const hid_t array = H5Dcreate2(inner, "u", H5T_NATIVE_DOUBLE, space,
                                 H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Dwrite(array, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
  const hid_t text = H5Dcreate2(group, "names", H5T_C_S1, space, H5P_DEFAULT,
                                H5P_DEFAULT, H5P_DEFAULT);
  H5Dclose(text);
  H5Dclose(array);
  H5Gclose(inner);
  H5Gclose(group);
  H5Sclose(space);
  H5Fclose(file);

  const auto reader = TensorReader::open(path);
  EXPECT_EQ(
      reader->shapes(),
      (std::map<std::string, std::vector<int64_t>>{{"flow/late/u", {2}}}));
  EXPECT_EQ(reader->unread(), std::vector<std::string>{"flow/names"});
  EXPECT_TRUE(torch::equal(reader->all("flow/late/u"),
                           torch::tensor({3, 5}, torch::kFloat64)));
}

}  // namespace
}  // namespace propagator::data
