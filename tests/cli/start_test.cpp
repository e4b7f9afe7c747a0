#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "command.h"
#include "propagator/core/files.h"

namespace propagator {
namespace {

using testing::shell;
using testing::TemporaryFolder;

// The program that needs libtorch.
fs::path program_proper() {
  return fs::path(testing::program()).parent_path().parent_path() /
         "libexec/propagator";
}

TEST(VerbsStart, AnswersAreThoseOfTheProgramProper) {
  for (const std::string words :
       {"--help", "-h", "--version", "train --help", "data generate -h", "list",
        "list --json", "lst", "train --hlp", "'train --help'", ""}) {
    const auto answer = shell(testing::program() + " " + words);
    const auto expected = shell(program_proper().string() + " " + words);
    EXPECT_EQ(answer.status, expected.status) << words;
    EXPECT_EQ(answer.output, expected.output) << words;
  }
}

TEST(VerbsStart, HelpNeedsNoLibtorch) {
  const TemporaryFolder alone;
  for (const char* folder : {"bin", "libexec"}) {
    fs::create_directory(alone / folder);
  }
  fs::copy_file(testing::program(), alone / "bin/propagator");
  const auto answers = program_proper().string() + ".answers";
  fs::copy_file(answers, alone / "libexec/propagator.answers");
  const auto start = (alone / "bin/propagator").string();
  const auto help = shell(start + " solve --help");
  EXPECT_EQ(help.status, 0);
  EXPECT_EQ(help.output, shell(testing::program() + " solve --help").output);
  const auto more = shell(start + " info");
  EXPECT_EQ(more.status, 1);
  EXPECT_NE(more.output.find("cannot start"), std::string::npos) << more.output;
}

#if defined(__x86_64__)
// Whatever processors the BLAS knows by their names.
TEST(VerbsStart, ProductsUseTheInstructionsThereAre) {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    GTEST_SKIP() << "no AVX2";
  }
  const auto kernels = [](const std::string& environment) -> std::string {
    const auto info = shell(environment + testing::program() + " info --json");
    return nlohmann::json::parse(info.output).at("blas_kernels");
  };
  const auto own = kernels("");
  if (own.empty()) GTEST_SKIP() << "the BLAS is not OpenBLAS";
  EXPECT_NE(own, "Prescott");
  // Who has chosen knows better.
  EXPECT_EQ(kernels("OPENBLAS_CORETYPE=Haswell "), "Haswell");
}
#endif

TEST(VerbsStart, ListsAreOfTheFilesThereAre) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "configs");
  write_file_atomically(folder / "configs/mine.yaml", "# my own plate\n");
  const auto list = shell(fmt::format(
      "cd {} && {} list", folder.path().string(), testing::program()));
  EXPECT_EQ(list.status, 0) << list.output;
  EXPECT_NE(list.output.find("my own plate"), std::string::npos) << list.output;
}

}  // namespace
}  // namespace propagator
