#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace propagator {

namespace fs = std::filesystem;

// The whole file as bytes. FileError if it is missing or unreadable.
std::string read_file(const fs::path& path);

// Writes `bytes` so that a reader sees the old file or the new one, never a
// part: a temporary file beside it, flushed to disk, renamed into place.
// On failure the temporary is removed, the old file stays, FileError is thrown.
void write_file_atomically(const fs::path& path, std::string_view bytes);

// The same for formats that a library writes by name: `write` gets the path of
// the temporary file.
void write_atomically(const fs::path& path,
                      const std::function<void(const fs::path&)>& write);

// The same for a whole directory: `fill` gets an empty directory beside `path`,
// which is flushed and renamed to `path`. `path` must not exist yet.
void write_directory_atomically(
    const fs::path& path, const std::function<void(const fs::path&)>& fill);

// Leftovers of writes that were killed: `.tmp-*` entries.
bool is_unfinished(const std::string& name);
void remove_unfinished(const fs::path& folder);

}  // namespace propagator
