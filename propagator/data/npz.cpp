#include "propagator/data/npz.h"

#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <memory>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/data/npy.h"

namespace propagator::data {
namespace {

// Closed, if at all, by zip_close; else what was changed is dropped.
using Archive = std::unique_ptr<zip_t, decltype(&zip_discard)>;

Archive open_archive(const fs::path& path, int flags) {
  int error = 0;
  return {zip_open(path.c_str(), flags, &error), &zip_discard};
}

// False if libzip refuses; `bytes` must live until it has written them.
bool pack_entry(zip_t* archive, const std::string& name,
                const std::string& bytes) {
  zip_source_t* source =
      zip_source_buffer(archive, bytes.data(), bytes.size(), /*freep=*/0);
  if (source == nullptr) return false;
  const auto index =
      zip_file_add(archive, name.c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    zip_source_free(source);
    return false;
  }
  return zip_set_file_compression(archive, static_cast<zip_uint64_t>(index),
                                  ZIP_CM_STORE, 0) == 0;
}

// The bytes of an entry as far as there are any, whatever length is claimed.
// Reading to the end makes libzip compare the checksum. False if it is damaged.
bool unpack_entry(zip_t* archive, zip_uint64_t index, std::string& bytes) {
  constexpr size_t kPart = 1 << 20;
  const std::unique_ptr<zip_file_t, decltype(&zip_fclose)> file(
      zip_fopen_index(archive, index, 0), &zip_fclose);
  if (file == nullptr) return false;
  zip_int64_t got = 0;
  do {
    const size_t size = bytes.size();
    bytes.resize(size + kPart);
    got = zip_fread(file.get(), bytes.data() + size, kPart);
    bytes.resize(size + static_cast<size_t>(std::max<zip_int64_t>(got, 0)));
  } while (got > 0);
  return got == 0;
}

}  // namespace

bool has_npz() { return true; }

void save_npz(const fs::path& path, const TensorFile& content) {
  // The entries' bytes must live until zip_close has written them.
  std::map<std::string, std::string> entries;
  for (const auto& [name, tensor] : content.tensors) {
    entries[name + ".npy"] = to_npy(tensor);
  }
  if (!content.note.empty()) {
    entries["note.npy"] = to_npy(torch::from_blob(
        const_cast<char*>(content.note.data()),
        {static_cast<int64_t>(content.note.size())}, torch::kUInt8));
  }
  write_atomically(path, [&](const fs::path& temporary) {
    auto archive = open_archive(temporary, ZIP_CREATE | ZIP_TRUNCATE);
    if (archive == nullptr) {
      throw FileError("cannot write " + path.string(),
                      "is the folder writable?");
    }
    const auto check = [&](bool good) {
      if (good) return;
      throw FileError(fmt::format("cannot write {}: {}", path.string(),
                                  zip_strerror(archive.get())),
                      "is the disk full, or the folder not writable?");
    };
    for (const auto& [name, bytes] : entries) {
      check(pack_entry(archive.get(), name, bytes));
    }
    check(zip_close(archive.get()) == 0);
    archive.release();  // zip_close has freed it
  });
}

TensorFile load_npz(const fs::path& path) {
  if (!fs::exists(path)) {
    throw FileError("cannot read " + path.string() + ": No such file");
  }
  const auto archive = open_archive(path, ZIP_RDONLY | ZIP_CHECKCONS);
  if (archive == nullptr) {
    throw DataError(path.string() + " is not an .npz file, or is damaged");
  }
  TensorFile content;
  const zip_int64_t count = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<zip_uint64_t>(i);
    const char* stored = zip_get_name(archive.get(), index, 0);
    std::string bytes, name = stored == nullptr ? "" : stored;
    if (stored == nullptr || !unpack_entry(archive.get(), index, bytes)) {
      throw DataError(fmt::format("{}: '{}' is damaged", path.string(), name));
    }
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    try {
      const auto tensor = from_npy(bytes);
      if (name == "note" && tensor.scalar_type() == torch::kUInt8) {
        content.note.assign(static_cast<const char*>(tensor.data_ptr()),
                            tensor.nbytes());
      } else {
        content.tensors[name] = tensor;
      }
    } catch (const DataError& damage) {
      throw DataError(fmt::format("{}: array '{}': {}", path.string(), name,
                                  damage.what()));
    }
  }
  return content;
}

}  // namespace propagator::data
