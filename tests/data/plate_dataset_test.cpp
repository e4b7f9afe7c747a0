#include "propagator/data/plate_dataset.h"

#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/data/npz.h"
#include "testing.h"

namespace propagator::data {
namespace {

using testing::TemporaryFolder;
using testing::thrown;

constexpr int64_t kCases = 70;  // more than one portion of 64
constexpr int64_t kSeed = 11;
constexpr Split kSplits[] = {Split::kTrain, Split::kValidation, Split::kTest};

physics::HeatPlateOptions small_plate() {
  physics::HeatPlateOptions plate;
  plate.rows = 5;
  plate.cols = 6;
  plate.frames = 4;
  return plate;
}

PlateDataset dataset(const std::string& file, Storage storage,
                     Precision precision = Precision::kFloat32) {
  const PlateDataOptions options{
      .cases = kCases, .file = file, .storage = storage};
  return {small_plate(), options, kSeed, Runtime{torch::kCPU, precision}};
}

// A file where node (r, c) of frame t of case n is 1000n + 100t + 10r + c.
TensorFile counted() {
  const auto along = [](int64_t count, double step) {
    return torch::arange(count, torch::kFloat64) * step;
  };
  const auto fields = along(kCases, 1000).view({-1, 1, 1, 1}) +
                      along(4, 100).view({-1, 1, 1}) +
                      along(5, 10).view({-1, 1}) + along(6, 1);
  return {{{"fields", fields},
           {"alpha", 1 + along(kCases, 1)},
           {"dt", 0.5 + along(kCases, 1)}},
          R"({"equation": "heat"})"};
}

// What a dataset says about `content` as its file.
std::string problem(const TensorFile& content) {
  const TemporaryFolder folder;
  save_tensors(folder / "a.h5", content);
  return thrown<DataError>(
      [&] { dataset((folder / "a.h5").string(), Storage::kStream); });
}

void expect_equal(const PlateDataset& a, const PlateDataset& b) {
  for (const auto split : kSplits) {
    ASSERT_EQ(a.size(split), b.size(split));
    const auto x = a.range(split, 0, kCases), y = b.range(split, 0, kCases);
    EXPECT_TRUE(torch::equal(x.frames, y.frames));
    EXPECT_TRUE(torch::equal(x.alpha, y.alpha));
    EXPECT_TRUE(torch::equal(x.dt, y.dt));
  }
}

TEST(DataPlate, SplitCoversAllCasesOnce) {
  for (const int64_t cases : {10, 100, 103, 12000}) {
    const auto split = make_split(cases, kSeed);
    std::set<int64_t> all;
    for (const auto part : kSplits) {
      all.insert(split.of(part).begin(), split.of(part).end());
    }
    EXPECT_EQ(all.size(), cases);  // with the sizes below: no case twice
    EXPECT_EQ(*all.begin(), 0);
    EXPECT_EQ(*all.rbegin(), cases - 1);
    EXPECT_EQ(split.train.size(), cases * 7 / 10);
    EXPECT_EQ(split.train.size() + split.validation.size(), cases * 9 / 10);
    EXPECT_EQ(split.test.size(), cases - cases * 9 / 10);
    const auto& every = split.of(Split::kAll);
    EXPECT_EQ(every.size(), cases);
    EXPECT_EQ(std::set<int64_t>(every.begin(), every.end()), all);
  }
}

TEST(DataPlate, SplitFollowsTheSeed) {
  const auto one = make_split(100, 1), again = make_split(100, 1),
             two = make_split(100, 2);
  for (const auto part : kSplits) {
    EXPECT_EQ(one.of(part), again.of(part));
    EXPECT_NE(one.of(part), two.of(part));
    EXPECT_FALSE(std::ranges::is_sorted(one.of(part))) << "it is no prefix";
  }
}

TEST(DataPlate, TooFewCasesCannotBeSplit) {
  EXPECT_EQ(make_split(10, 1).test.size(), 1);
  for (const int64_t cases : {0, 1, 3, 9}) {
    EXPECT_THROW(make_split(cases, 1), ConfigError) << cases;
  }
}

TEST(DataPlate, EpochVisitsEachPositionOnce) {
  BatchSampler sampler(12, 4, kSeed);
  ASSERT_EQ(sampler.batches_per_epoch(), 3);
  std::set<std::vector<int64_t>> orders;
  for (int64_t epoch = 0; epoch < 5; ++epoch) {
    std::vector<int64_t> order;
    for (int64_t n = 3 * epoch; n < 3 * epoch + 3; ++n) {
      for (const int64_t at : sampler.batch(n)) order.push_back(at);
    }
    orders.insert(order);
    std::ranges::sort(order);
    EXPECT_EQ(order,
              (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  }
  EXPECT_EQ(orders.size(), 5) << "every epoch has its own order";
}

TEST(DataPlate, ShortBatchIsLeftOut) {
  BatchSampler sampler(10, 4, kSeed);
  EXPECT_EQ(sampler.batches_per_epoch(), 2);
  std::set<int64_t> seen;
  for (const int64_t n : {0, 1}) {
    for (const int64_t at : sampler.batch(n)) seen.insert(at);
  }
  EXPECT_EQ(seen.size(), 8);
  EXPECT_THROW(BatchSampler(3, 4, kSeed), ConfigError);
}

TEST(DataPlate, BatchIsAFunctionOfItsNumber) {
  BatchSampler forward(20, 3, kSeed);
  std::vector<std::vector<int64_t>> batches;
  for (int64_t n = 0; n < 30; ++n) batches.push_back(forward.batch(n));
  BatchSampler other(20, 3, kSeed);
  for (const int64_t n : {29, 0, 13, 5, 6, 5, 28, 1}) {
    EXPECT_EQ(other.batch(n), batches[n]) << n;
  }
  EXPECT_NE(BatchSampler(20, 3, kSeed + 1).batch(0), batches[0]);
}

TEST(DataPlate, BatchHasTheCasesOfItsSplit) {
  const auto data = dataset("", Storage::kMemory, Precision::kFloat64);
  const auto split = make_split(kCases, kSeed);
  const std::vector<int64_t> positions = {3, 0, 5};
  for (const auto part : kSplits) {
    const auto batch =
        data.batch(part, torch::tensor(positions, torch::kInt64));
    for (int64_t i = 0; i < 3; ++i) {
      const auto expected = physics::draw_cases(
          small_plate(), kSeed, split.of(part)[positions[i]], 1);
      EXPECT_TRUE(torch::equal(batch.frames[i][0], expected.first[0]));
      EXPECT_TRUE(torch::equal(batch.alpha[i], expected.alpha[0]));
      EXPECT_TRUE(torch::equal(batch.dt[i], expected.dt[0]));
    }
  }
}

TEST(DataPlate, StorageDoesNotChangeTheNumbers) {
  const auto memory = dataset("", Storage::kMemory);
  const auto stream = dataset("", Storage::kStream);
  EXPECT_TRUE(memory.in_memory());
  EXPECT_FALSE(stream.in_memory());
  EXPECT_EQ(memory.bytes(), 70 * 4 * 5 * 6 * 4);
  expect_equal(memory, stream);
}

TEST(DataPlate, FileHoldsTheSameNumbers) {
  const TemporaryFolder folder;
  const auto generated = dataset("", Storage::kMemory);
  for (const std::string name : {"a.h5", "a.npz"}) {
    if (name == "a.npz" && !has_npz()) GTEST_SKIP() << "built without libzip";
    const auto path = (folder / name).string();
    write_plate_file(path, small_plate(), kCases, kSeed, Runtime{}, "n");
    EXPECT_EQ(TensorReader::open(path)->note(), "n");
    expect_equal(dataset(path, Storage::kStream), generated);
    expect_equal(dataset(path, Storage::kMemory), generated);
  }
}

TEST(DataPlate, FileRowsGoToTheirCases) {
  const TemporaryFolder folder;
  const auto content = counted();
  save_tensors(folder / "a.h5", content);
  const auto split = make_split(kCases, kSeed);
  for (const auto storage : {Storage::kMemory, Storage::kStream}) {
    const auto data = dataset((folder / "a.h5").string(), storage);
    const auto batch = data.range(Split::kValidation, 2, 3);
    for (int64_t i = 0; i < 3; ++i) {
      const auto n = static_cast<double>(split.validation[2 + i]);
      EXPECT_EQ(batch.frames[i][3][4][5].item<double>(), 1000 * n + 345);
      EXPECT_EQ(batch.frames[i][1][0][2].item<double>(), 1000 * n + 102);
      EXPECT_EQ(batch.alpha[i].item<double>(), n + 1);
      EXPECT_EQ(batch.dt[i].item<double>(), n + 0.5);
    }
    EXPECT_EQ(data.range(Split::kTest, 5, 100).alpha.size(0), 2);
  }
}

TEST(DataPlate, NumberThatIsNotFiniteIsNamed) {
  for (const double bad : {double{NAN}, double{-INFINITY}}) {
    auto content = counted();
    content.tensors["fields"][66][2][3][1] = bad;
    EXPECT_NE(problem(content).find("case 66, frame 2, node (3, 1)"),
              std::string::npos);
  }
}

TEST(DataPlate, OtherShapeIsADataError) {
  auto content = counted();
  content.tensors["fields"] = content.tensors["fields"].narrow(3, 0, 5);
  EXPECT_NE(problem(content).find("expected 'fields' of shape (70, 4, 5, 6), "
                                  "got (70, 4, 5, 5)"),
            std::string::npos);
  content = counted();
  content.tensors["dt"] = content.tensors["dt"].narrow(0, 0, 69);
  EXPECT_NE(problem(content).find("'dt' of shape (70), got (69)"),
            std::string::npos);
  content = counted();
  content.tensors.erase("alpha");
  EXPECT_NE(problem(content).find("expected an array named 'alpha'"),
            std::string::npos);
}

TEST(DataPlate, DiffusivityAndStepMustBePositiveAndFinite) {
  for (const std::string name : {"alpha", "dt"}) {
    for (const double bad : {-1.0, 0.0, double{NAN}, double{INFINITY}}) {
      SCOPED_TRACE(name + " " + std::to_string(bad));
      auto content = counted();
      content.tensors[name][69] = bad;
      EXPECT_NE(problem(content).find("every " + name + " to be positive"),
                std::string::npos);
    }
  }
}

TEST(DataPlate, AFileIsOfHeatIfItsNoteSaysSo) {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& note) {
    auto content = counted();
    content.note = note;
    save_tensors(folder / "a.h5", content);
    return dataset((folder / "a.h5").string(), Storage::kStream);
  };
  EXPECT_TRUE(dataset("", Storage::kStream).is_heat());
  EXPECT_TRUE(read(R"({"equation": "heat"})").is_heat());
  EXPECT_TRUE(read(R"({"made_by": "propagator data generate"})").is_heat());
  for (const char* note : {"", "heat", "[1]", R"({"equation": "wave"})",
                           R"({"made_by": "propagator predict"})"}) {
    EXPECT_FALSE(read(note).is_heat()) << note;
  }
}

TEST(DataPlate, AnotherFieldNeedsNeitherDiffusivityNorStep) {
  const TemporaryFolder folder;
  auto content = counted();
  content.note = "";
  content.tensors.erase("dt");
  save_tensors(folder / "a.h5", content);
  const auto with = dataset((folder / "a.h5").string(), Storage::kMemory);
  EXPECT_TRUE(with.has_alpha());
  EXPECT_GT(with.range(Split::kTest, 0, 1).alpha.item<double>(), 0);
  content.tensors.erase("alpha");
  save_tensors(folder / "b.h5", content);
  const auto without = dataset((folder / "b.h5").string(), Storage::kMemory);
  EXPECT_FALSE(without.has_alpha());
  EXPECT_EQ(without.range(Split::kTest, 0, 1).alpha.item<double>(), 0);
}

TEST(DataPlate, FileInAnImpossiblePlaceLeavesNothing) {
  const TemporaryFolder folder;
  const auto write = [](const fs::path& path) {
    write_plate_file(path, small_plate(), 10, kSeed, Runtime{}, "n");
  };
  write_file_atomically(folder / "file", "old");
  for (const std::string name : {"a.h5", "a.npz"}) {
    if (name == "a.npz" && !has_npz()) continue;
    EXPECT_THROW(write(folder / "file" / name), FileError);
    EXPECT_THROW(write("/proc/none/" + name), FileError);
    fs::create_directories(folder / name / "inside");
    EXPECT_THROW(write(folder / name), FileError);
    fs::remove_all(folder / name);
  }
  EXPECT_EQ(read_file(folder / "file"), "old");
  fs::remove(folder / "file");
  EXPECT_TRUE(fs::is_empty(folder.path()));
  EXPECT_THROW(write(folder / "a.txt"), UsageError);
}

}  // namespace
}  // namespace propagator::data
