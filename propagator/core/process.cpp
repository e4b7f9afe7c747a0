#include "propagator/core/process.h"

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "propagator/core/error.h"

namespace propagator {
namespace {

bool is_program(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

void close_if_open(int file) {
  if (file >= 0) close(file);
}

// Starts the program with `input` and `output` as its standard streams.
// Returns 0 or what went wrong.
int spawn(pid_t* id, const fs::path& program,
          const std::vector<std::string>& arguments, const fs::path& folder,
          int input, int output) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());

  // What we ignore or block is our own affair.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  for (const int signal : {SIGPIPE, SIGINT, SIGTERM}) {
    sigaddset(&signals, signal);
  }
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  std::vector<char*> words{const_cast<char*>(program.c_str())};
  for (const auto& argument : arguments) {
    words.push_back(const_cast<char*>(argument.c_str()));
  }
  words.push_back(nullptr);
  const int error = posix_spawn(id, program.c_str(), &actions, &attributes,
                                words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

// Until it ends; 128 + signal for one that was killed.
int reap(pid_t id) {
  int status = 0;
  while (waitpid(id, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string read_from_start(int file) {
  std::string text;
  char part[4096];
  for (;;) {
    const ssize_t count =
        pread(file, part, sizeof part, static_cast<off_t>(text.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(part, static_cast<size_t>(count));
  }
}

}  // namespace

fs::path find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path program = fs::path(folder.empty() ? "." : folder) / name;
    // Whatever folder it will work in.
    if (is_program(program)) return fs::absolute(program);
  }
  return {};
}

std::string shell_word(const std::string& text) {
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_-./+:=,").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::ranges::all_of(text, is_plain)) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

Process::Process(const fs::path& program,
                 const std::vector<std::string>& arguments,
                 const fs::path& folder) {
  // A socket, not a pipe: writing to a program that is gone is then an error,
  // not a signal.
  int ends[2] = {-1, -1};
  int error = 0;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    error = errno;
  }
  input_ = ends[0];
  if (error == 0) {
    output_ = memfd_create("output", MFD_CLOEXEC);
    if (output_ < 0) error = errno;
  }
  if (error == 0) {
    // The program is meant relative to our folder, not to its own.
    const auto file = program.empty() ? program : fs::absolute(program);
    error = spawn(&id_, file, arguments, folder, ends[1], output_);
  }
  close_if_open(ends[1]);
  if (error != 0) {
    close_if_open(input_);
    close_if_open(output_);
    throw FileError(fmt::format("cannot start '{}' in {}: {}", program.string(),
                                folder.string(), std::strerror(error)));
  }
}

Process::~Process() {
  if (id_ > 0) {
    kill(id_, SIGKILL);
    reap(id_);
  }
  close_if_open(input_);
  close_if_open(output_);
}

Process::Process(Process&& other) noexcept
    : id_(std::exchange(other.id_, -1)),
      input_(std::exchange(other.input_, -1)),
      output_(std::exchange(other.output_, -1)) {}

bool Process::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(input_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

Process::Outcome Process::wait() {
  if (id_ < 0) throw std::logic_error("[process] waited for twice");
  close(std::exchange(input_, -1));
  const int status = reap(std::exchange(id_, -1));
  return {status, read_from_start(output_)};
}

}  // namespace propagator
