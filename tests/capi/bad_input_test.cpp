#include <cstring>
#include <filesystem>
#include <limits>

#include "capi/open_runs.h"
#include "propagator/core/files.h"

namespace propagator::capi {
namespace {

using testing::apply;
using testing::array;
using testing::OpenHandle;
using testing::TemporaryFolder;

// Whether the last call failed so, with this in its message.
::testing::AssertionResult failed_with(pg_status status, pg_status expected,
                                       const std::string& text) {
  const std::string message = pg_last_error();
  if (status == expected && message.find(text) != std::string::npos) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure()
         << "expected status " << expected << " and '" << text << "', got "
         << status << " and '" << message << "'";
}

TEST(CapiBadInput, OfOpen) {
  const auto path = (testing::runs_folder() / "plate").string();
  int nothing = 0;
  auto* run = reinterpret_cast<pg_run*>(&nothing);
  const auto open = [&](const char* folder, const pg_options* options) {
    return pg_open(folder, options, &run);
  };
  EXPECT_TRUE(failed_with(pg_open(path.c_str(), nullptr, nullptr), PG_USAGE,
                          "[pg_open] expected where to put the run, got a "
                          "null pointer"));
  EXPECT_TRUE(failed_with(open(nullptr, nullptr), PG_USAGE,
                          "expected the folder of a run, got a null pointer"));
  EXPECT_EQ(run, nullptr);
  EXPECT_TRUE(
      failed_with(open("/nowhere", nullptr), PG_FAILURE, "no run at /nowhere"));
  EXPECT_NE(std::strstr(pg_last_error(), "\nhint: give the folder"), nullptr);

  pg_options options = PG_OPTIONS;
  for (const size_t size :
       {size_t{0}, size_t{8}, sizeof(pg_options) - 1, sizeof(pg_options) + 8}) {
    options.size = size;
    EXPECT_TRUE(failed_with(open(path.c_str(), &options), PG_USAGE,
                            "expected options of size 32, got"));
  }
  options = PG_OPTIONS;
  options.threads = -1;
  EXPECT_TRUE(failed_with(open(path.c_str(), &options), PG_USAGE,
                          "options.threads from 0 to 4096, got -1"));
  options = PG_OPTIONS;
  options.device = "abacus";
  EXPECT_TRUE(failed_with(open(path.c_str(), &options), PG_USAGE,
                          "expected auto, cpu, cuda"));
  options = PG_OPTIONS;
  options.precision = "fp31";
  EXPECT_TRUE(
      failed_with(open(path.c_str(), &options), PG_USAGE, "options.precision"));
  EXPECT_EQ(run, nullptr);
}

// A training that has begun has a configuration and no checkpoint; its lock
// keeps nobody from reading.
TEST(CapiBadInput, OfARunThatIsBeingTrainedOrDamaged) {
  const TemporaryFolder folder;
  const auto whole = testing::runs_folder() / "plate";
  auto training = train::RunDirectory::create(folder / "new", false,
                                              read_file(whole / "config.yaml"));
  const auto open = [&](const std::string& name) {
    pg_run* run = nullptr;
    const auto status = pg_open((folder / name).c_str(), nullptr, &run);
    pg_close(run);
    return status;
  };
  const auto open_new = [&] {
    pg_run* run = nullptr;
    const auto status = pg_open((folder / "new").c_str(), nullptr, &run);
    EXPECT_EQ(run, nullptr);
    return status;
  };
  EXPECT_TRUE(failed_with(open_new(), PG_FAILURE, "has no checkpoint yet"));
  std::filesystem::copy(whole / "checkpoints", folder / "new/checkpoints",
                        std::filesystem::copy_options::recursive);
  EXPECT_EQ(open("new"), PG_OK);

  std::filesystem::copy(whole, folder / "cut",
                        std::filesystem::copy_options::recursive);
  const auto weights = folder / "cut/checkpoints/step-0000000002";
  for (const auto& file : std::filesystem::directory_iterator(weights)) {
    if (file.path().extension() == ".safetensors") {
      std::filesystem::resize_file(file.path(), 20);
    }
  }
  pg_run* run = nullptr;
  EXPECT_TRUE(failed_with(pg_open((folder / "cut").c_str(), nullptr, &run),
                          PG_DATA, "step-0000000002"));
}

TEST(CapiBadInput, OfAHandle) {
  pg_run* run = nullptr;
  ASSERT_EQ(pg_open((testing::runs_folder() / "plate").c_str(), nullptr, &run),
            PG_OK);
  const pg_port* ports = nullptr;
  size_t count = 0;
  EXPECT_TRUE(failed_with(pg_inputs(run, nullptr, &count), PG_USAGE,
                          "where to put the ports"));
  EXPECT_TRUE(failed_with(pg_outputs(run, &ports, nullptr), PG_USAGE,
                          "where to put their count"));
  ASSERT_EQ(pg_close(run), PG_OK);
  int nothing = 0;
  for (auto* bad : {run, reinterpret_cast<pg_run*>(&nothing)}) {
    EXPECT_TRUE(failed_with(pg_close(bad), PG_USAGE, "that is not open"));
    EXPECT_TRUE(failed_with(pg_inputs(bad, &ports, &count), PG_USAGE,
                            "[pg_inputs] expected an open run"));
    EXPECT_TRUE(failed_with(apply(bad, {}, {}), PG_USAGE, "that is not open"));
  }
  EXPECT_TRUE(failed_with(pg_outputs(nullptr, &ports, &count), PG_USAGE,
                          "expected an open run, got a null pointer"));
  int64_t shape[PG_MAX_RANK];
  int32_t rank = 0;
  EXPECT_TRUE(
      failed_with(pg_output_shape(nullptr, nullptr, 0, "fields", shape, &rank),
                  PG_USAGE, "got a null pointer"));
}

// One good call, and everything that can be wrong with it.
class CapiBadTensors : public ::testing::Test {
 protected:
  pg_status call() const {
    return apply(handle.run, {fields, alpha}, {answer});
  }
  void TearDown() override {
    EXPECT_TRUE((place == -7).all().item<bool>()) << "it was written to";
  }

  const OpenHandle handle{"plate"};
  const torch::Tensor values = torch::full({2, 3, 6, 7}, 0.5);
  const torch::Tensor alphas = torch::full({2}, 0.05);
  const torch::Tensor place = torch::full({2, 8, 6, 7}, -7.0F);
  pg_tensor fields = array("fields", values), alpha = array("alpha", alphas),
            answer = array("fields", place);
};

TEST_F(CapiBadTensors, Pointers) {
  EXPECT_TRUE(failed_with(pg_apply(handle.run, nullptr, 2, &answer, 1),
                          PG_USAGE, "[pg_apply] expected inputs, got a null"));
  EXPECT_TRUE(failed_with(pg_apply(handle.run, &fields, 1, nullptr, 1),
                          PG_USAGE, "[pg_apply] expected outputs, got a null"));
  const auto good = fields;
  fields.name = nullptr;
  EXPECT_TRUE(failed_with(call(), PG_USAGE, "expected a name for input 0"));
  fields = good;
  fields.data = nullptr;
  EXPECT_TRUE(failed_with(call(), PG_USAGE,
                          "input 'fields': expected (2, 3, 6, 7) numbers, got "
                          "a null pointer"));
  fields = good;
  fields.shape = nullptr;
  EXPECT_TRUE(failed_with(call(), PG_USAGE, "a shape of 4 numbers"));
  fields = good;
  fields.data = static_cast<char*>(fields.data) + 1;
  EXPECT_TRUE(failed_with(call(), PG_USAGE, "a multiple of 4 bytes"));
  fields = good;
  answer.data = nullptr;
  EXPECT_TRUE(failed_with(call(), PG_USAGE, "output 'fields': expected"));
}

TEST_F(CapiBadTensors, Names) {
  fields.name = "field";
  EXPECT_TRUE(
      failed_with(call(), PG_USAGE,
                  "[pg_apply] expected an input of this model, got 'field'"));
  EXPECT_NE(std::strstr(pg_last_error(), "hint: did you mean fields"), nullptr)
      << pg_last_error();
  fields.name = "alpha";
  EXPECT_TRUE(failed_with(call(), PG_USAGE, "expected once, got twice"));
  fields.name = "fields";
  EXPECT_TRUE(failed_with(apply(handle.run, {fields}, {answer}), PG_USAGE,
                          "expected an input 'alpha', got none"));
  answer.name = "deviation";
  EXPECT_TRUE(failed_with(call(), PG_USAGE, "expected an output of this"));
  int64_t shape[PG_MAX_RANK];
  int32_t rank = 0;
  EXPECT_TRUE(failed_with(
      pg_output_shape(handle.run, &fields, 1, nullptr, shape, &rank), PG_USAGE,
      "the name of an output"));
}

TEST_F(CapiBadTensors, TypesAndDevices) {
  for (const int type : {0, 5, -1}) {
    fields.type = type;
    EXPECT_TRUE(failed_with(call(), PG_USAGE, "expected the type PG_FLOAT32"));
  }
  fields.type = PG_FLOAT32;
  answer.type = PG_INT32;
  EXPECT_TRUE(failed_with(call(), PG_USAGE, "got integers"));
  answer.type = PG_FLOAT32;
  for (const auto& [device, index] :
       {std::pair{PG_CPU, 1}, {PG_CUDA, -1}, {PG_CUDA, 1000}}) {
    fields.device = device;
    fields.device_index = index;
    EXPECT_TRUE(failed_with(call(), PG_USAGE, "expected the device PG_CPU 0"));
  }
  fields.device_index = 0;
  fields.device = 2;
  EXPECT_TRUE(failed_with(call(), PG_USAGE, "got 2 0"));
  fields.device = PG_CUDA;
  fields.device_index = 999;
  EXPECT_TRUE(failed_with(call(), PG_DEVICE, "[device]"));
}

TEST_F(CapiBadTensors, Shapes) {
  for (const int rank : {-1, 9}) {
    fields.rank = rank;
    EXPECT_TRUE(failed_with(call(), PG_USAGE, "a rank from 0 to 8, got"));
  }
  fields.rank = 3;
  EXPECT_TRUE(failed_with(call(), PG_USAGE,
                          "expected 'fields' of shape (N > 0, at least 3, 6, "
                          "7), got (2, 3, 6)"));
  fields.rank = 4;
  const auto with = [&](pg_tensor& tensor, std::vector<int64_t> shape,
                        const char* text) {
    const auto good = tensor;
    tensor.shape = shape.data();
    tensor.strides = nullptr;
    EXPECT_TRUE(failed_with(call(), PG_USAGE, text));
    tensor = good;
  };
  with(fields, {2, 3, 7, 6}, "got (2, 3, 7, 6)");
  with(fields, {2, 2, 6, 7}, "at least 3, 6, 7), got (2, 2, 6, 7)");
  with(fields, {0, 3, 6, 7}, "got (0, 3, 6, 7)");
  with(fields, {2, -3, 6, 7}, "expected lengths of 0 or more");
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max() / 4;
  with(fields, {kHuge, 3, 6, 7}, "expected an array that fits in memory");
  with(answer, {2, 7, 6, 7}, "expected the shape (any, 8, 6, 7), got (2, 7");
  with(answer, {3, 8, 6, 7},
       "expected room for 'fields' of shape (2, 8, 6, 7), got (3, 8");
}

TEST_F(CapiBadTensors, Strides) {
  const auto with = [&](pg_tensor& tensor, std::vector<int64_t> strides,
                        const char* text) {
    const auto good = tensor;
    tensor.strides = strides.data();
    EXPECT_TRUE(failed_with(call(), PG_USAGE, text));
    tensor = good;
  };
  with(fields, {126, 42, 7, -1}, "strides of 0 or more, got (126, 42, 7, -1)");
  with(fields, {126, std::numeric_limits<int64_t>::max() / 3, 7, 1},
       "expected an array that fits in memory");
  with(answer, {0, 42, 7, 1}, "a place of its own");
  with(answer, {336, 42, 6, 1}, "a place of its own");
  with(answer, {1, 1, 1, 1}, "strides are in elements, not in bytes");
}

TEST_F(CapiBadTensors, Numbers) {
  values[1][2][3][4] = NAN;
  EXPECT_TRUE(failed_with(call(), PG_USAGE, "fields"));
  values.fill_(0.5);
  alphas[0] = -1;
  EXPECT_TRUE(failed_with(call(), PG_USAGE, "alpha to be positive"));
  alphas[0] = 0.05;
  values.fill_(std::numeric_limits<float>::max());
  EXPECT_TRUE(failed_with(call(), PG_NUMERICAL, "is not finite"));
}

}  // namespace
}  // namespace propagator::capi
