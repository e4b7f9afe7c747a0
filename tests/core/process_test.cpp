#include "propagator/core/process.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "propagator/core/error.h"
#include "testing.h"

namespace propagator {
namespace {

using testing::TemporaryFolder;
using testing::thrown;

Process shell(const std::string& script, const fs::path& folder = ".") {
  return Process("/bin/sh", {"-c", script}, folder);
}

TEST(CoreProcess, OutputAndExitCodeAreKept) {
  const auto outcome = shell("echo out; echo err >&2; exit 3").wait();
  EXPECT_EQ(outcome.status, 3);
  EXPECT_EQ(outcome.output, "out\nerr\n");
}

TEST(CoreProcess, ArgumentsReachItUnchanged) {
  Process process("/bin/sh", {"-c", "printf '%s|' \"$@\"", "sh", "a b", "", "*",
                              "$HOME \"'"});
  EXPECT_EQ(process.wait().output, "a b||*|$HOME \"'|");
}

TEST(CoreProcess, AShellTakesAWordForItself) {
  for (const std::string text :
       {"runs/quick-1.2", "a b", "", "it's", "$(echo x) `echo y`; z & \"*\"",
        "'", "θ\\\n"}) {
    EXPECT_EQ(shell("printf %s " + shell_word(text)).wait().output, text);
  }
  EXPECT_EQ(shell_word("runs/quick-1.2"), "runs/quick-1.2");
}

TEST(CoreProcess, WorksInItsFolder) {
  const TemporaryFolder folder;
  EXPECT_EQ(shell("pwd -P", folder.path()).wait().output,
            fs::canonical(folder.path()).string() + "\n");
}

TEST(CoreProcess, ReadsWhatIsWritten) {
  std::string bytes(1'000'000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(i * 7 % 251);
  }
  Process cat(find_program("cat"), {});
  ASSERT_TRUE(cat.write(bytes));
  const auto outcome = cat.wait();
  EXPECT_EQ(outcome.status, 0);
  EXPECT_TRUE(outcome.output == bytes);
}

TEST(CoreProcess, WritingToAProgramThatIsGoneIsNoSignal) {
  Process process = shell("exit 0");
  const std::string part(100'000, 'x');
  bool reads = true;
  for (int n = 0; reads && n < 1000; ++n) reads = process.write(part);
  EXPECT_FALSE(reads);
  EXPECT_FALSE(process.write("more"));
  EXPECT_EQ(process.wait().status, 0);
}

TEST(CoreProcess, MissingProgramIsAnError) {
  const auto message = thrown<FileError>([] { Process("/no/program", {}); });
  EXPECT_NE(message.find("'/no/program'"), std::string::npos) << message;
  EXPECT_THROW(Process(find_program("no-such-program"), {}), FileError);
  EXPECT_THROW(Process("/bin/sh", {}, "/no/folder"), FileError);
}

TEST(CoreProcess, DeathBySignal) {
  EXPECT_EQ(shell("kill -TERM $$").wait().status, 128 + SIGTERM);
}

TEST(CoreProcess, SignalsWeIgnoreAreItsOwn) {
  sigset_t blocked, old;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGINT);
  pthread_sigmask(SIG_BLOCK, &blocked, &old);
  auto* pipe = signal(SIGPIPE, SIG_IGN);
  auto* interrupt = signal(SIGINT, SIG_IGN);
  Process first = shell("kill -INT $$; sleep 5");
  Process second = shell("kill -PIPE $$; sleep 5");
  EXPECT_EQ(first.wait().status, 128 + SIGINT);
  EXPECT_EQ(second.wait().status, 128 + SIGPIPE);
  signal(SIGINT, interrupt);
  signal(SIGPIPE, pipe);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

TEST(CoreProcess, UnfinishedProgramIsKilled) {
  const TemporaryFolder folder;
  pid_t id = 0;
  {
    Process process =
        shell("echo $$ > id.part; mv id.part id; exec sleep 60", folder.path());
    while (!fs::exists(folder / "id")) usleep(1000);
    id = std::stoi(read_file(folder / "id"));
    EXPECT_EQ(kill(id, 0), 0);
  }
  EXPECT_EQ(kill(id, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST(CoreProcess, MovedProcessGoesOn) {
  Process first = shell("cat");
  Process second = std::move(first);
  EXPECT_TRUE(second.write("text"));
  EXPECT_EQ(second.wait().output, "text");
  EXPECT_THROW(second.wait(), std::logic_error);
}

TEST(CoreProcess, FindProgramTakesTheFirstThatCanRun) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "a" / "tool", "not executable");
  write_file_atomically(folder / "c" / "tool", "#!/bin/sh\necho c\n");
  write_file_atomically(folder / "d" / "tool", "#!/bin/sh\necho d\n");
  fs::create_directories(folder / "b" / "tool");
  for (const char* name : {"c", "d"}) {
    fs::permissions(folder / name / "tool", fs::perms::owner_all);
  }
  std::string path;
  for (const char* name : {"none", "a", "b", "c", "d"}) {
    path += (folder / name).string() + ":";
  }
  const testing::OnlyPath only(path);
  const auto found = find_program("tool");
  const auto missing = find_program("other");
  EXPECT_EQ(found, folder / "c" / "tool");
  EXPECT_EQ(missing, "");
  EXPECT_EQ(Process(found, {}).wait().output, "c\n");
}

TEST(CoreProcess, AFolderOnPathIsThatOfTheCallerNotOfTheProgram) {
  const TemporaryFolder folder;
  for (const char* name : {"here", "there"}) {
    const auto tool = folder / name / "bin" / "tool";
    write_file_atomically(tool, fmt::format("#!/bin/sh\necho {}\n", name));
    fs::permissions(tool, fs::perms::owner_all);
  }
  const auto before = fs::current_path();
  fs::current_path(folder / "here");
  const testing::OnlyPath only("bin");
  Process tool(find_program("tool"), {}, folder / "there");
  fs::current_path(before);
  EXPECT_EQ(tool.wait().output, "here\n");
}

}  // namespace
}  // namespace propagator
