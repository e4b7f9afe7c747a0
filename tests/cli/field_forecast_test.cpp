// A file of fields of one's own, from the first command on.

#include <fstream>
#include <nlohmann/json.hpp>

#include "command.h"
#include "propagator/data/tensor_file.h"
#include "testing.h"

namespace propagator {
namespace {

class VerbsFieldForecast : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }
  static testing::Outcome run(const std::string& arguments) {
    return testing::propagator(arguments);
  }
  void save(const std::string& name, const data::Tensors& tensors) const {
    data::save_tensors(path(name), {tensors, ""});
  }
  testing::Outcome train(const std::string& file,
                         const std::string& more = "") const {
    return run("train " + path(file) + " --runs " + path("runs") +
               " -s train.max_steps=3 -s model.width=4 -s data.given=2 " +
               more);
  }
  testing::TemporaryFolder folder_;
};

TEST_F(VerbsFieldForecast, OneCommandNamesOnlyTheFile) {
  save("mine.h5", {{"u", torch::rand({12, 6, 16, 16})}});
  const auto trained = train("mine.h5");
  ASSERT_EQ(trained.status, 0) << trained.output;
  EXPECT_NE(trained.output.find("12 cases of 6 frames on 16 x"),
            std::string::npos)
      << trained.output;
  EXPECT_NE(trained.output.find("linear (DMD)"), std::string::npos);
  EXPECT_NE(trained.output.find("leak audit: 0 leaks"), std::string::npos);
  // A run that is opened again has the units of its data.
  const auto tested =
      run("eval " + path("runs/mine") + " --json --out " + path("again.json"));
  ASSERT_EQ(tested.status, 0) << tested.output;
  const auto number = [&](const std::string& file) {
    std::ifstream stream(path(file));
    return nlohmann::json::parse(stream).at("nrmse").get<double>();
  };
  EXPECT_NEAR(number("again.json"), number("runs/mine/result.json"), 1e-6);
  save("first.h5", {{"fields", torch::rand({3, 2, 16, 16, 1})}});
  const auto predicted =
      run("predict " + path("runs/mine") + " --input " + path("first.h5") +
          " --output " + path("future.h5"));
  ASSERT_EQ(predicted.status, 0) << predicted.output;
  EXPECT_EQ(data::load_tensors(path("future.h5")).tensors.at("fields").sizes(),
            (std::vector<int64_t>{3, 6, 16, 16, 1}));
  const auto checked = run("check " + path("mine.h5"));
  EXPECT_EQ(checked.status, 0) << checked.output;
  EXPECT_NE(checked.output.find("12 cases of 6 frames"), std::string::npos);
}

TEST_F(VerbsFieldForecast, BadFilesAreAnswered) {
  const auto good = torch::rand({12, 6, 16});
  struct Bad {
    data::Tensors tensors;
    const char* more;
    int status;
    const char* says;
  };
  auto hole = good.clone();
  hole[11][5][3] = std::nan("");
  for (const auto& [tensors, more, status, says] :
       {Bad{{{"u", hole}}, "", 3, "case 11, frame 5"},
        {{{"u", good.narrow(0, 0, 1)}}, "", 3, "at least 10 cases"},
        {{{"u", good}, {"v", good}}, "", 3, "several arrays"},
        {{{"u", good}, {"t", torch::zeros({6})}}, "", 3, "'t' to rise"},
        {{{"u", good}}, "-s data.given=6", 2, "more than the 6"},
        {{{"u", good}}, "-s model.modes=9", 2, "at most 8 modes"},
        {{{"u", torch::rand({12, 6})}}, "", 3, "three axes or more"}}) {
    save("bad.h5", tensors);
    const auto outcome = train("bad.h5", more);
    EXPECT_EQ(outcome.status, status) << outcome.output;
    EXPECT_NE(outcome.output.find(says), std::string::npos) << outcome.output;
    EXPECT_FALSE(std::filesystem::exists(path("runs/bad/checkpoints")));
  }
  EXPECT_EQ(train("none.h5").status, 2);
}

// A channel that never changes is no reason to fail, nor to blow it up.
TEST_F(VerbsFieldForecast, AConstantChannelStaysAsItIs) {
  auto fields = torch::rand({12, 6, 16, 2});
  fields.select(-1, 1).fill_(7);
  save("flat.h5", {{"u", fields}});
  const auto outcome = train("flat.h5", "--json");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
}

TEST_F(VerbsFieldForecast, AFileThatChangedIsRefused) {
  save("mine.h5", {{"u", torch::rand({12, 6, 16})}});
  ASSERT_EQ(train("mine.h5").status, 0);
  save("mine.h5", {{"u", torch::rand({12, 6, 16})}});
  const auto resumed =
      run("resume " + path("runs/mine") + " -s train.max_steps=5");
  EXPECT_EQ(resumed.status, 3) << resumed.output;
  EXPECT_NE(resumed.output.find("not the file that the run was trained on"),
            std::string::npos);
}

}  // namespace
}  // namespace propagator
