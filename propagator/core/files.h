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
// part: a temporary file beside it, flushed to disk, renamed into place. When
// it returns, neither the file nor its name is lost by a power cut. On failure
// the temporary is removed, the old file stays, FileError is thrown.
void write_file_atomically(const fs::path& path, std::string_view bytes);

// The same for formats that a library writes by name: `write` gets the path of
// the temporary file.
void write_atomically(const fs::path& path,
                      const std::function<void(const fs::path&)>& write);

// The same for a whole directory: `fill` gets an empty directory beside `path`,
// which is flushed with its files and renamed to `path`, which must not exist
// yet. It needs no more than `write_file` for them.
void write_directory_atomically(
    const fs::path& path, const std::function<void(const fs::path&)>& fill);

// Makes a folder and those above it that are missing. FileError if it cannot.
void create_folders(const fs::path& path);

// Writes a file, or appends to one; a crash may leave a part of it.
void write_file(const fs::path& path, std::string_view bytes);
void append_to_file(const fs::path& path, std::string_view bytes);

// Flushes a file or the entries of a folder to the disk.
void flush_to_disk(const fs::path& path);

// Removes a file or a folder so that no half of it can be taken for a whole.
void remove_atomically(const fs::path& path);

// Leftovers of writes that were killed: `.tmp-*` entries. Removes those in
// `folder`, or only those that should have become its file `name`.
bool is_unfinished(const std::string& name);
void remove_unfinished(const fs::path& folder, const std::string& name = "");

// Whether it is a folder with nothing but such leftovers.
bool is_vacant(const fs::path& folder);

}  // namespace propagator
