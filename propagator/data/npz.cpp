#include "propagator/data/npz.h"

#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <regex>

#include "propagator/core/error.h"
#include "propagator/core/files.h"

namespace propagator::data {
namespace {

constexpr const char* kMagic = "\x93NUMPY";
constexpr size_t kMagicSize = 6;

struct TypeCode {
  const char* code;
  torch::ScalarType type;
};
constexpr TypeCode kTypeCodes[] = {
    {"<f4", torch::kFloat32}, {"<f8", torch::kFloat64},
    {"<i4", torch::kInt32},   {"<i8", torch::kInt64},
    {"|u1", torch::kUInt8},   {"<f2", torch::kFloat16},
};

std::string to_npy(const torch::Tensor& tensor) {
  const auto values = tensor.detach().to(torch::kCPU).contiguous();
  std::string code;
  for (const auto& known : kTypeCodes) {
    if (known.type == values.scalar_type()) code = known.code;
  }
  if (code.empty()) throw UsageError("[npz] no code for this type");
  std::string shape;
  for (const int64_t n : values.sizes()) shape += std::to_string(n) + ",";
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                  code, shape);
  // Magic, version 1.0, two bytes of length, header, newline: 64-aligned.
  const size_t size = (kMagicSize + 4 + header.size() + 1 + 63) / 64 * 64;
  header.resize(size - kMagicSize - 4 - 1, ' ');
  header += '\n';
  std::string bytes(kMagic, kMagicSize);
  bytes += '\x01';
  bytes += '\x00';
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  bytes.append(static_cast<const char*>(values.data_ptr()), values.nbytes());
  return bytes;
}

std::vector<int64_t> parse_shape(const std::string& text) {
  std::vector<int64_t> shape;
  static const std::regex number("[0-9]{1,18}");
  for (std::sregex_iterator it(text.begin(), text.end(), number), end;
       it != end; ++it) {
    shape.push_back(std::stoll(it->str()));
  }
  return shape;
}

torch::Tensor from_npy(const std::string& bytes) {
  if (bytes.size() < 12 || std::memcmp(bytes.data(), kMagic, kMagicSize) != 0) {
    throw DataError("it is not a .npy array");
  }
  const auto byte = [&](size_t at) {
    return static_cast<size_t>(static_cast<unsigned char>(bytes[at]));
  };
  const bool old = bytes[6] == 1;
  const size_t start = old ? 10 : 12;
  size_t length = byte(8) | byte(9) << 8;
  if (!old) length |= byte(10) << 16 | byte(11) << 24;
  if (start + length > bytes.size()) throw DataError("its header is cut off");
  const std::string header = bytes.substr(start, length);
  static const std::regex pattern(
      "'descr': *'([^']+)'.*'fortran_order': *(True|False).*"
      "'shape': *\\(([^)]*)\\)");
  std::smatch match;
  if (!std::regex_search(header, match, pattern)) {
    throw DataError("its header cannot be read: " + header);
  }
  const bool fortran = match[2] == "True";
  auto shape = parse_shape(match[3]);
  for (const auto& known : kTypeCodes) {
    if (match[1] != known.code) continue;
    uint64_t expected = c10::elementSize(known.type);
    for (const int64_t n : shape) {
      if (__builtin_mul_overflow(expected, n, &expected)) {
        throw DataError("its shape is impossible");
      }
    }
    const size_t data = start + length;
    if (expected != bytes.size() - data) {
      throw DataError(fmt::format("it should have {} bytes of data, got {}",
                                  expected, bytes.size() - data));
    }
    if (fortran) std::reverse(shape.begin(), shape.end());
    auto tensor = torch::empty(shape, torch::TensorOptions().dtype(known.type));
    if (expected > 0) {
      std::memcpy(tensor.data_ptr(), bytes.data() + data, expected);
    }
    if (!fortran) return tensor;
    std::vector<int64_t> order(shape.size());
    std::iota(order.rbegin(), order.rend(), 0);
    return tensor.permute(order).contiguous();
  }
  throw DataError(
      fmt::format("its type '{}' is not supported", match[1].str()));
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
    int error = 0;
    zip_t* archive =
        zip_open(temporary.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &error);
    if (archive == nullptr) {
      throw FileError("cannot write " + path.string(),
                      "is the folder writable?");
    }
    for (const auto& [name, bytes] : entries) {
      zip_source_t* source =
          zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
      const auto index =
          zip_file_add(archive, name.c_str(), source, ZIP_FL_ENC_UTF_8);
      zip_set_file_compression(archive, static_cast<zip_uint64_t>(index),
                               ZIP_CM_STORE, 0);
    }
    if (zip_close(archive) != 0) {
      const std::string why = zip_strerror(archive);
      zip_discard(archive);
      throw FileError(fmt::format("cannot write {}: {}", path.string(), why),
                      "is the disk full, or the folder not writable?");
    }
  });
}

TensorFile load_npz(const fs::path& path) {
  if (!fs::exists(path)) {
    throw FileError("cannot read " + path.string() + ": No such file");
  }
  int error = 0;
  zip_t* archive = zip_open(path.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, &error);
  if (archive == nullptr) {
    throw DataError(path.string() + " is not an .npz file, or is damaged");
  }
  const std::unique_ptr<zip_t, decltype(&zip_discard)> closer(archive,
                                                              &zip_discard);
  TensorFile content;
  const auto count = static_cast<zip_uint64_t>(zip_get_num_entries(archive, 0));
  for (zip_uint64_t i = 0; i < count; ++i) {
    zip_stat_t stat;
    std::string bytes;
    zip_stat_index(archive, i, 0, &stat);
    bytes.resize(stat.size);
    zip_file_t* file = zip_fopen_index(archive, i, 0);
    // Reading past the end makes libzip compare the checksum.
    char beyond = 0;
    const bool read = file != nullptr &&
                      zip_fread(file, bytes.data(), bytes.size()) ==
                          static_cast<zip_int64_t>(bytes.size()) &&
                      zip_fread(file, &beyond, 1) == 0;
    if (file != nullptr) zip_fclose(file);
    std::string name = stat.name;
    if (!read) {
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
