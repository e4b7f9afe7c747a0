#include "propagator/core/files.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <new>
#include <set>

#include "propagator/core/error.h"
#include "propagator/core/sha256.h"
#include "testing.h"

namespace {

std::vector<std::filesystem::path>* flushed = nullptr;  // while it is watched

}  // namespace

// Takes the place of the C library's.
extern "C" int fsync(int file) {
  if (flushed != nullptr) {
    flushed->push_back(
        std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file)));
  }
  return static_cast<int>(syscall(SYS_fsync, file));
}

namespace propagator {
namespace {

using testing::TemporaryFolder;
using testing::thrown;
using Names = std::set<std::string>;

Names names_in(const fs::path& folder) {
  Names names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

// While it lives, a file of this process may not grow beyond `bytes`.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes)
      : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit old_{};
  void (*handler_)(int);
};

// What is flushed to the disk while it lives, in order.
class Flushes {
 public:
  Flushes() { flushed = &paths_; }
  ~Flushes() { flushed = nullptr; }
  const std::vector<fs::path>& paths() const { return paths_; }

 private:
  std::vector<fs::path> paths_;
};

TEST(CoreFiles, WriteReplacesTheFile) {
  const TemporaryFolder folder;
  const std::string bytes("new\0\r\n\xff", 7);
  write_file_atomically(folder / "a", "a longer old content");
  write_file_atomically(folder / "a", bytes);
  EXPECT_EQ(read_file(folder / "a"), bytes);
  write_file_atomically(folder / "a", "");
  EXPECT_EQ(read_file(folder / "a"), "");
  EXPECT_EQ(names_in(folder.path()), Names{"a"});
}

// What a power cut leaves is what was flushed: first the bytes, then, once the
// file has its name, that name, and the name of each new folder in the one
// above it.
TEST(CoreFiles, WhatIsReportedAsWrittenWasFlushed) {
  const TemporaryFolder folder;
  const auto top = fs::canonical(folder.path());
  const auto temporary = fmt::format(".tmp-a-{}", getpid());
  {
    const Flushes flushes;
    write_file_atomically(top / "x" / "y" / "a", "deep");
    EXPECT_EQ(flushes.paths(),
              (std::vector<fs::path>{top, top / "x", top / "x/y" / temporary,
                                     top / "x/y"}));
  }
  EXPECT_EQ(read_file(top / "x" / "y" / "a"), "deep");
  const Flushes flushes;
  write_directory_atomically(top / "d", [&](const fs::path& inside) {
    write_file(inside / "b", "2");
  });
  const auto unfinished = top / fmt::format(".tmp-d-{}", getpid());
  EXPECT_EQ(flushes.paths(),
            (std::vector<fs::path>{unfinished / "b", unfinished, top}));
}

TEST(CoreFiles, AppendsWholeLines) {
  const TemporaryFolder folder;
  append_to_file(folder / "a", "one\n");
  append_to_file(folder / "a", "two\n");
  EXPECT_EQ(read_file(folder / "a"), "one\ntwo\n");
  const FileSizeLimit limit(4);
  EXPECT_THROW(append_to_file(folder / "a", "three\n"), FileError);
}

TEST(CoreFiles, RemovesFilesAndFolders) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "d" / "inside", "");
  write_file_atomically(folder / "a", "");
  write_file_atomically(folder / ".tmp-old-d" / "of a killed one", "");
  remove_atomically(folder / "d");
  remove_atomically(folder / "a");
  EXPECT_EQ(names_in(folder.path()), Names{});
  EXPECT_THROW(remove_atomically(folder / "none"), FileError);
}

TEST(CoreFiles, ThrowingWriterLeavesTheOldFile) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "a", "old");
  const auto message = thrown<NumericalError>([&] {
    write_atomically(folder / "a", [](const fs::path& temporary) {
      std::ofstream(temporary) << "half";
      throw NumericalError("in between");
    });
  });
  EXPECT_EQ(message, "in between");
  EXPECT_EQ(read_file(folder / "a"), "old");
  EXPECT_EQ(names_in(folder.path()), Names{"a"});
}

TEST(CoreFiles, WriterThatWritesNothingIsAnError) {
  const TemporaryFolder folder;
  EXPECT_THROW(write_atomically(folder / "a", [](const fs::path&) {}),
               FileError);
  EXPECT_EQ(names_in(folder.path()), Names{});
}

TEST(CoreFiles, WriteOverAFolderFails) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "a" / "inside", "old");
  const auto message =
      thrown<FileError>([&] { write_file_atomically(folder / "a", "new"); });
  EXPECT_NE(message.find((folder / "a").string()), std::string::npos);
  EXPECT_EQ(read_file(folder / "a" / "inside"), "old");
  EXPECT_EQ(names_in(folder.path()), Names{"a"});
}

TEST(CoreFiles, WriteBelowAFileFails) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "a", "a file");
  EXPECT_THROW(write_file_atomically(folder / "a" / "b", "new"), FileError);
  EXPECT_EQ(read_file(folder / "a"), "a file");
}

TEST(CoreFiles, WriteBeyondTheSizeLimitLeavesTheOldFile) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "a", "old");
  std::string advice;
  {
    const FileSizeLimit limit(4096);
    try {
      write_file_atomically(folder / "a", std::string(10000, 'x'));
    } catch (const FileError& error) {
      advice = error.hint();
    }
  }
  EXPECT_NE(advice.find("ulimit -f"), std::string::npos);
  EXPECT_EQ(read_file(folder / "a"), "old");
  EXPECT_EQ(names_in(folder.path()), Names{"a"});
}

TEST(CoreFiles, FolderAppearsWhole) {
  const TemporaryFolder folder;
  write_directory_atomically(folder / "d", [&](const fs::path& inside) {
    EXPECT_FALSE(fs::exists(folder / "d"));
    EXPECT_TRUE(fs::is_empty(inside));
    write_file_atomically(inside / "a", "1");
    write_file_atomically(inside / "b", "2");
  });
  EXPECT_EQ(names_in(folder / "d"), (Names{"a", "b"}));
  EXPECT_EQ(read_file(folder / "d" / "b"), "2");
  EXPECT_EQ(names_in(folder.path()), Names{"d"});
}

TEST(CoreFiles, FolderThatFailsLeavesNothing) {
  const TemporaryFolder folder;
  const auto fill = [](const fs::path& inside) {
    write_file_atomically(inside / "a", "new");
    throw DataError("in between");
  };
  EXPECT_THROW(write_directory_atomically(folder / "d", fill), DataError);
  EXPECT_EQ(names_in(folder.path()), Names{});
}

TEST(CoreFiles, FolderDoesNotReplaceAnother) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "d" / "a", "old");
  const auto fill = [](const fs::path& inside) {
    write_file_atomically(inside / "a", "new");
  };
  EXPECT_THROW(write_directory_atomically(folder / "d", fill), FileError);
  EXPECT_EQ(read_file(folder / "d" / "a"), "old");
  EXPECT_EQ(names_in(folder.path()), Names{"d"});
}

TEST(CoreFiles, RemoveUnfinishedKeepsTheRest) {
  const TemporaryFolder folder;
  write_file_atomically(folder / ".tmp-a-1", "");
  write_file_atomically(folder / ".tmp-d-2" / "a", "");
  write_file_atomically(folder / "tmp-b", "");
  write_file_atomically(folder / ".hidden", "");
  EXPECT_FALSE(is_vacant(folder.path()));
  remove_unfinished(folder.path(), "a");
  EXPECT_EQ(names_in(folder.path()), (Names{".tmp-d-2", "tmp-b", ".hidden"}));
  remove_unfinished(folder.path());
  EXPECT_EQ(names_in(folder.path()), (Names{"tmp-b", ".hidden"}));
  EXPECT_NO_THROW(remove_unfinished(folder / "none"));
}

TEST(CoreFiles, VacantIsAFolderWithLeftoversAlone) {
  const TemporaryFolder folder;
  EXPECT_TRUE(is_vacant(folder.path()));
  write_file_atomically(folder / ".tmp-a-1", "");
  EXPECT_TRUE(is_vacant(folder.path()));
  EXPECT_FALSE(is_vacant(folder / ".tmp-a-1"));
  EXPECT_FALSE(is_vacant(folder / "none"));
}

TEST(CoreFiles, ReadSaysWhyNot) {
  const TemporaryFolder folder;
  EXPECT_EQ(thrown<FileError>([&] { read_file(folder / "none"); }),
            "cannot read " + (folder / "none").string() +
                ": No such file or directory");
  EXPECT_EQ(thrown<FileError>([&] { read_file(folder.path()); }),
            "cannot read " + folder.path().string() + ": it is a folder");
}

TEST(CoreFiles, ReadErrorIsNotAnEmptyFile) {
  // It opens, but nothing is mapped at address 0, so reading fails with EIO.
  if (!std::ifstream("/proc/self/mem")) GTEST_SKIP() << "no /proc/self/mem";
  EXPECT_THROW(read_file("/proc/self/mem"), FileError);
}

TEST(CoreSha256, VectorsOfTheStandard) {
  EXPECT_EQ(sha256(""),
            "e3b0c44298fc1c149afbf4c8996fb924"
            "27ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"),
            "ba7816bf8f01cfea414140de5dae2223"
            "b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039"
            "a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67"
            "f1809a48a497200e046d39ccc7112cd0");
}

TEST(CoreSha256, LengthsAroundABlock) {  // against sha256sum
  EXPECT_EQ(sha256(std::string(55, 'x')),
            "d5e285683cd4efc02d021a5c62014694"
            "958901005d6f71e89e0989fac77e4072");
  EXPECT_EQ(sha256(std::string(56, 'x')),
            "04c26261370ee7541549d16dee320c72"
            "3e3fd14671e66a099afe0a377c16888e");
  EXPECT_EQ(sha256(std::string(63, 'x')),
            "75220b47218278e656f2013bb8f0c455"
            "a25eaf01e86c64924e9d48d89776d6f2");
  EXPECT_EQ(sha256(std::string(64, 'x')),
            "7ce100971f64e7001e8fe5a51973ecdf"
            "e1ced42befe7ee8d5fd6219506b5393c");
  EXPECT_EQ(sha256(std::string(65, 'x')),
            "9537c5fdf120482f7d58d25e9ed583f5"
            "2c02b4e304ea814db1633ad565aed7e9");
}

TEST(CoreError, EachClassHasItsExitCode) {
  const auto code = [](const std::exception& error) {
    return static_cast<int>(exit_code(error));
  };
  EXPECT_EQ(code(UsageError("")), 2);
  EXPECT_EQ(code(ConfigError("key", "")), 2);
  EXPECT_EQ(code(FileError("")), 1);
  EXPECT_EQ(code(DataError("")), 3);
  EXPECT_EQ(code(NumericalError("")), 4);
  EXPECT_EQ(code(DeviceError("")), 5);
  EXPECT_EQ(code(std::bad_alloc()), 5);
  EXPECT_EQ(code(std::runtime_error("CUDA out of memory. Tried")), 5);
  EXPECT_EQ(code(std::runtime_error("anything else")), 1);
  // The class decides, not words in its message.
  EXPECT_EQ(code(DataError("out of memory")), 3);
}

TEST(CoreError, HintTravelsWithTheError) {
  EXPECT_EQ(hint(UsageError("what", "do this")), "do this");
  EXPECT_EQ(hint(ConfigError("key", "what", "do that")), "do that");
  EXPECT_EQ(hint(FileError("what", "free space")), "free space");
  EXPECT_EQ(hint(DataError("what")), "");
  EXPECT_EQ(hint(NumericalError("what", "smaller step")), "smaller step");
  EXPECT_EQ(hint(DeviceError("what", "use cpu")), "use cpu");
  EXPECT_EQ(hint(std::runtime_error("what")), "");
  EXPECT_NE(hint(std::bad_alloc()).find("smaller batches"), std::string::npos);
  EXPECT_EQ(ConfigError("model.heads", "what").key(), "model.heads");
}

}  // namespace
}  // namespace propagator
