#include "propagator/core/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "propagator/core/error.h"

namespace propagator {
namespace {

constexpr const char* kTemporaryPrefix = ".tmp-";

[[noreturn]] void throw_write_error(const fs::path& path, int error) {
  std::string advice;
  if (error == ENOSPC || error == EDQUOT) advice = "free some disk space";
  if (error == EFBIG) advice = "the file size limit is too low (ulimit -f)";
  if (error == EACCES || error == EROFS) advice = "choose a writable folder";
  throw FileError(
      fmt::format("cannot write {}: {}", path.string(), std::strerror(error)),
      advice);
}

fs::path folder_of(const fs::path& path) {
  return path.parent_path().empty() ? fs::path(".") : path.parent_path();
}

fs::path temporary_beside(const fs::path& path) {
  return path.parent_path() / fmt::format("{}{}-{}", kTemporaryPrefix,
                                          path.filename().string(), getpid());
}

// Writes to `temporary`, emptied or at its end as `mode` says; errors name
// `path`, which it is or will become.
void write_bytes(const fs::path& temporary, int mode, const fs::path& path,
                 std::string_view bytes) {
  const int file =
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | mode, 0644);
  if (file < 0) throw_write_error(path, errno);
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      const int error = errno;
      close(file);
      throw_write_error(path, error);
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  if (close(file) != 0) throw_write_error(path, errno);
}

// Runs `fill` on a temporary beside `path`, then renames it into place;
// whatever goes wrong, the temporary does not stay.
void replace_through_temporary(
    const fs::path& path, const std::function<void(const fs::path&)>& fill) {
  const fs::path temporary = temporary_beside(path);
  try {
    create_folders(folder_of(path));
    fill(temporary);
    std::error_code error;
    fs::rename(temporary, path, error);
    if (error) throw_write_error(path, error.value());
    flush_to_disk(folder_of(path));
  } catch (const fs::filesystem_error& error) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw_write_error(path, error.code().value());
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw;
  }
}

}  // namespace

std::string read_file(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    throw FileError(
        fmt::format("cannot read {}: it is a folder", path.string()));
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    throw FileError(
        fmt::format("cannot read {}: {}", path.string(), std::strerror(errno)));
  }
  std::string bytes;
  std::vector<char> part(1 << 20);
  do {
    in.read(part.data(), static_cast<std::streamsize>(part.size()));
    bytes.append(part.data(), static_cast<size_t>(in.gcount()));
  } while (in.good());
  if (in.bad()) {
    throw FileError(fmt::format("cannot read {} to its end", path.string()));
  }
  return bytes;
}

void write_file_atomically(const fs::path& path, std::string_view bytes) {
  write_atomically(path, [&](const fs::path& temporary) {
    write_bytes(temporary, O_TRUNC, path, bytes);
  });
}

void write_atomically(const fs::path& path,
                      const std::function<void(const fs::path&)>& write) {
  replace_through_temporary(path, [&](const fs::path& temporary) {
    write(temporary);
    flush_to_disk(temporary);
  });
}

void write_directory_atomically(
    const fs::path& path, const std::function<void(const fs::path&)>& fill) {
  replace_through_temporary(path, [&](const fs::path& temporary) {
    fs::remove_all(temporary);
    fs::create_directories(temporary);
    fill(temporary);
    for (const auto& entry : fs::directory_iterator(temporary)) {
      flush_to_disk(entry.path());
    }
    flush_to_disk(temporary);
  });
}

// Each new folder is flushed into the one above it: on some file systems a
// power cut could else take it, with all that was flushed inside.
void create_folders(const fs::path& path) {
  std::error_code error;
  if (path.empty() || fs::is_directory(path, error)) return;
  create_folders(path.parent_path());
  fs::create_directory(path, error);
  if (error) throw_write_error(path, error.value());
  flush_to_disk(folder_of(path));
}

void write_file(const fs::path& path, std::string_view bytes) {
  write_bytes(path, O_TRUNC, path, bytes);
}

void append_to_file(const fs::path& path, std::string_view bytes) {
  write_bytes(path, O_APPEND, path, bytes);
}

void flush_to_disk(const fs::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw_write_error(path, errno);
  const int status = fsync(file);
  const int error = errno;
  close(file);
  if (status != 0 && error != EINVAL) throw_write_error(path, error);
}

void remove_atomically(const fs::path& path) {
  const auto doomed =
      folder_of(path) /
      fmt::format("{}old-{}", kTemporaryPrefix, path.filename().string());
  std::error_code error;
  fs::remove_all(doomed, error);
  if (!error) fs::rename(path, doomed, error);
  if (!error) fs::remove_all(doomed, error);
  if (error) throw_write_error(path, error.value());
}

bool is_unfinished(const std::string& name) {
  return name.starts_with(kTemporaryPrefix);
}

void remove_unfinished(const fs::path& folder, const std::string& name) {
  const auto prefix = kTemporaryPrefix + (name.empty() ? "" : name + "-");
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().filename().string().starts_with(prefix)) {
      fs::remove_all(entry.path(), ignored);
    }
  }
}

bool is_vacant(const fs::path& folder) {
  std::error_code error;
  return fs::is_directory(folder, error) &&
         std::ranges::all_of(
             fs::directory_iterator(folder, error), fs::directory_iterator(),
             [](const fs::directory_entry& entry) {
               return is_unfinished(entry.path().filename().string());
             }) &&
         !error;
}

}  // namespace propagator
