// Files of fields as a user asks for them.

#include <nlohmann/json.hpp>

#include "command.h"
#include "propagator/data/fields/field_file.h"
#include "propagator/data/npz.h"
#include "testing.h"

namespace propagator {
namespace {

using testing::TemporaryFolder;

struct Asked {
  const char* simulator;
  const char* settings;
  std::vector<int64_t> shape;
};
void PrintTo(const Asked& asked, std::ostream* stream) {
  *stream << asked.simulator;
}

class VerbsFields : public ::testing::TestWithParam<Asked> {};

TEST_P(VerbsFields, GenerateWritesAFileThatReadsBack) {
  const TemporaryFolder folder;
  std::vector<std::string> endings{".h5"};
  if (data::has_npz()) endings.push_back(".npz");
  torch::Tensor first;
  for (const auto& ending : endings) {
    const auto file = (folder / ("a" + ending)).string();
    const auto outcome = testing::propagator(
        fmt::format("data generate {} --out {} -s field.cases=2 "
                    "-s field.batch=1 {}",
                    GetParam().simulator, file, GetParam().settings));
    ASSERT_EQ(outcome.status, 0) << outcome.output;
    const auto set = data::read_field_set(file);
    EXPECT_EQ(set.values.sizes(), GetParam().shape);
    // Rows of a .h5 are written as they come, an .npz in one piece.
    if (!first.defined()) first = set.values;
    EXPECT_TRUE(torch::equal(set.values, first));
    EXPECT_EQ(set.note.at("simulator"), GetParam().simulator);
    EXPECT_FALSE(set.note.at("numbers").empty());
    EXPECT_NE(set.note.at("config").get<std::string>().find("cases: 2"),
              std::string::npos);
  }
}

const Asked kAsked[] = {
    {"advection", "-s field.points=16 -s field.frames=3", {2, 3, 16, 1}},
    {"blobs", "-s field.points=8 -s field.frames=3", {2, 3, 8, 8, 1}},
    {"burgers",
     "-s field.points=16 -s field.frames=3 -s field.viscosity=0.1",
     {2, 3, 16, 1}},
    {"diffusion-reaction",
     "-s field.points=8 -s field.frames=3 -s field.time=0.1",
     {2, 3, 8, 8, 2}},
    {"gray-scott",
     "-s field.points=8 -s field.frames=3 -s field.time=20",
     {2, 3, 8, 8, 2}},
    {"heat-fields",
     "-s field.points=6 -s field.modes=3 -s field.frames=3 -s field.dims=3",
     {2, 3, 6, 6, 6, 1}},
    {"shallow-water",
     "-s field.points=8 -s field.points_y=4 -s field.frames=3",
     {2, 3, 8, 4, 3}},
    {"vorticity",
     "-s field.points=12 -s field.modes=3 -s field.frames=3 -s field.time=1 "
     "-s field.steps=5",
     {2, 3, 12, 12, 1}}};

INSTANTIATE_TEST_SUITE_P(VerbsFields, VerbsFields, ::testing::ValuesIn(kAsked),
                         [](const auto& info) {
                           std::string name = info.param.simulator;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(VerbsFieldFiles, NamedSimulationsAndTheirErrors) {
  const TemporaryFolder folder;
  const auto file = (folder / "ring.h5").string();
  auto outcome = testing::propagator("data generate ring --out " + file +
                                     " -s field.cases=2");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(data::read_field_set(file).values.sizes(),
            (std::vector<int64_t>{2, 51, 160, 1}));
  outcome = testing::propagator("check data/ring --keys");
  EXPECT_NE(outcome.output.find("field.unit_max"), std::string::npos)
      << outcome.output;
  outcome = testing::propagator("list");
  EXPECT_NE(outcome.output.find("data/ring"), std::string::npos);
  const auto wrong = [&](const std::string& arguments, int status,
                         const char* text) {
    const auto said = testing::propagator(arguments + " --out " +
                                          (folder / "bad.h5").string());
    EXPECT_EQ(said.status, status) << said.output;
    EXPECT_NE(said.output.find(text), std::string::npos) << said.output;
    EXPECT_FALSE(std::filesystem::exists(folder / "bad.h5"));
  };
  wrong("data generate rings", 2, "ring");
  wrong("data generate ring -s field.point=8", 2, "field.points");
  wrong("data generate ring -s field.cases=0", 2, "field.cases");
  wrong("data generate ring -s field.modes=80", 2, "field.modes");
  wrong("data generate ring --precision bf16", 2, "fp64 and fp32");
  wrong("data generate ring -s simulator=burger", 2, "simulator");
  const TemporaryFolder empty;
  const auto stopped = testing::shell("timeout -s INT 3 " + testing::program() +
                                      " data generate shallow-water --out " +
                                      (empty / "a.h5").string());
  EXPECT_EQ(stopped.status, 124) << stopped.output;  // as timeout has it
  EXPECT_NE(stopped.output.find("stopped on request"), std::string::npos)
      << stopped.output;
  EXPECT_TRUE(std::filesystem::is_empty(empty.path()));
}

}  // namespace
}  // namespace propagator
