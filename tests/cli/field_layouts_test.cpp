// Fields as others publish them, from the command line.

#include <fstream>
#include <nlohmann/json.hpp>

#include "command.h"
#include "propagator/core/files.h"
#include "propagator/data/npy.h"
#include "propagator/data/npz.h"
#include "propagator/data/tensor_file.h"
#include "propagator/report/png.h"
#include "testing.h"

namespace propagator {
namespace {

class VerbsFieldLayouts : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }
  static testing::Outcome run(const std::string& arguments) {
    return testing::propagator(arguments);
  }
  static nlohmann::json json_of(const std::string& arguments) {
    const auto outcome = run(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    return nlohmann::json::parse(outcome.output);
  }
  // One array as PDEBench has it.
  torch::Tensor write_tensor() const {
    const auto u = testing::random({12, 6, 16}, "u").to(torch::kFloat32);
    data::save_tensors(path("in.hdf5"),
                       {{{"tensor", u},
                         {"x-coordinate", torch::arange(16) / 16.},
                         {"t-coordinate", torch::arange(7) / 5.}},
                        ""});
    return u;
  }
  testing::Outcome train(const std::string& what, const std::string& name,
                         const std::string& more = "") const {
    return run("train " + what + " --name " + name + " --runs " + path("runs") +
               " -s train.max_steps=3 -s train.batch=4 -s model.width=4 "
               "-s data.given=2 " +
               more);
  }
  testing::TemporaryFolder folder_;
};

TEST_F(VerbsFieldLayouts, InfoHasAxesAndRangesOfChannels) {
  const auto u = write_tensor();
  const auto said = json_of("data info --json " + path("in.hdf5"));
  const auto& fields = said.at("fields");
  EXPECT_EQ(fields.at("shape"), nlohmann::json::array({12, 6, 16, 1}));
  EXPECT_EQ(fields.at("layout"), "PDEBench, one array");
  EXPECT_EQ(fields.at("times").at("frames"), 6);
  EXPECT_NEAR(fields.at("times").at("last").get<double>(), 1, 1e-6);
  const auto& channel = fields.at("channels")[0];
  EXPECT_EQ(channel.at("name"), "u");
  EXPECT_NEAR(channel.at("deviation").get<double>(),
              u.to(torch::kFloat64).std(false).item<double>(), 1e-12);
  const auto text = run("data info " + path("in.hdf5"));
  EXPECT_NE(text.output.find("12 cases, (12, 6, 16, 1)"), std::string::npos)
      << text.output;
}

TEST_F(VerbsFieldLayouts, InfoDrawsTheFirstFields) {
  if (!report::has_png()) GTEST_SKIP() << "built without libpng";
  write_tensor();
  const auto drawn =
      run("data info " + path("in.hdf5") + " --picture " + path("u.png"));
  EXPECT_EQ(drawn.status, 0) << drawn.output;
  const auto png = read_file(path("u.png"));
  EXPECT_EQ(png.substr(1, 3), "PNG");
  // Not over a file that is there, not under another ending.
  const auto again =
      run("data info " + path("in.hdf5") + " --picture " + path("u.png"));
  EXPECT_EQ(again.status, 2) << again.output;
  EXPECT_EQ(run("data info " + path("in.hdf5") + " --picture " + path("u.png") +
                " --force")
                .status,
            0);
  EXPECT_EQ(run("data info " + path("in.hdf5") + " --picture " + path("u.pdf"))
                .status,
            2);
  // An array without a layout, in the plane and in space.
  for (const auto& shape : {std::vector<int64_t>{7, 5, 9, 11},
                            std::vector<int64_t>{7, 5, 9, 11, 10}}) {
    data::save_tensors(path("mine.h5"),
                       {{{"mine", testing::random(shape, "mine")}}, ""});
    const auto mine = run("data info " + path("mine.h5") +
                          " --force --picture " + path("mine.png"));
    EXPECT_EQ(mine.status, 0) << mine.output;
  }
  // Nothing is drawn of what is no field.
  data::save_tensors(path("table.h5"), {{{"x", torch::rand({5, 2})}}, ""});
  const auto none =
      run("data info " + path("table.h5") + " --picture " + path("none.png"));
  EXPECT_EQ(none.status, 3) << none.output;
  EXPECT_FALSE(fs::exists(path("none.png")));
}

TEST_F(VerbsFieldLayouts, ConvertWritesOurOwnFile) {
  const auto u = write_tensor();
  std::vector<std::string> endings{".h5"};
  if (data::has_npz()) endings.push_back(".npz");
  for (const auto& ending : endings) {
    const auto command =
        "data convert " + path("in.hdf5") + " " + path("out" + ending);
    const auto made = run(command);
    ASSERT_EQ(made.status, 0) << made.output;
    EXPECT_NE(made.output.find("12 cases in"), std::string::npos);
    EXPECT_TRUE(torch::equal(
        data::load_tensors(path("out" + ending)).tensors.at("fields"),
        u.unsqueeze(-1)));
    const auto said = json_of("data info --json " + path("out" + ending));
    EXPECT_EQ(said.at("fields").at("layout"), "a file of fields of ours");
    EXPECT_EQ(said.at("arrays").size(), 3u);
    EXPECT_EQ(run(command).status, 2);  // it is there
    EXPECT_EQ(run(command + " --force").status, 0);
  }
  const auto same =
      run("data convert --force " + path("out.h5") + " " + path("out.h5"));
  EXPECT_EQ(same.status, 2);
  EXPECT_EQ(run("data convert " + path("in.hdf5") + " " + path("o.csv")).status,
            2);
  const auto wrong = run("data convert " + path("in.hdf5") + " " +
                         path("w.h5") + " --axes case,x");
  EXPECT_EQ(wrong.status, 3) << wrong.output;
  EXPECT_FALSE(fs::exists(path("w.h5")));
}

// A number that is not finite stops it, and leaves nothing behind.
TEST_F(VerbsFieldLayouts, ConvertLeavesNothingHalfWritten) {
  auto u = torch::rand({200, 6, 16});
  u[199][3][2] = std::nan("");
  data::save_tensors(path("bad.h5"), {{{"u", u}}, ""});
  const auto made =
      run("data convert " + path("bad.h5") + " " + path("out/o.h5"));
  EXPECT_EQ(made.status, 3) << made.output;
  EXPECT_NE(made.output.find("case 199, frame 3"), std::string::npos);
  EXPECT_TRUE(!fs::exists(path("out")) || fs::is_empty(path("out")));
}

TEST_F(VerbsFieldLayouts, AFolderOfNpyFilesTrains) {
  fs::create_directories(path("cases"));
  for (int n = 0; n < 12; ++n) {
    std::ofstream(path(fmt::format("cases/{:02}.npy", n)), std::ios::binary)
        << data::to_npy(torch::rand({6, 16, 12}));
  }
  const auto trained = train(path("cases/"), "npy");
  ASSERT_EQ(trained.status, 0) << trained.output;
  EXPECT_NE(trained.output.find("12 cases of 6 frames on 16 x"),
            std::string::npos)
      << trained.output;
}

TEST_F(VerbsFieldLayouts, StreamedTrainingHasTheSameNumbers) {
  write_tensor();
  std::vector<std::string> results;
  for (const auto* storage : {"memory", "stream"}) {
    const auto trained = train(
        path("in.hdf5"), storage,
        std::string("-s data.storage=") + storage + " -s train.accumulate=2");
    ASSERT_EQ(trained.status, 0) << trained.output;
    const auto result = nlohmann::json::parse(
        read_file(folder_ / "runs" / storage / "result.json"));
    results.push_back(fmt::format("{} {}", result.at("nrmse").dump(),
                                  result.at("one_step").dump()));
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST_F(VerbsFieldLayouts, APickleIsNotRun) {
  std::ofstream(path("data.pt")) << "PK";
  for (const auto& command :
       {"train " + path("data.pt"), "data info " + path("data.pt"),
        "data convert " + path("data.pt") + " " + path("o.h5")}) {
    const auto outcome = run(command);
    EXPECT_EQ(outcome.status, 2) << outcome.output;
    EXPECT_NE(outcome.output.find("numpy.savez"), std::string::npos)
        << outcome.output;
  }
}

}  // namespace
}  // namespace propagator
