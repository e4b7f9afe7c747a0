#include "propagator/data/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/json.h"
#include "propagator/data/array_bytes.h"

namespace propagator::data {
namespace {

using nlohmann::json;

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kLargestHeader = 100'000'000;

struct TypeName {
  const char* name;
  torch::ScalarType type;
};
constexpr TypeName kTypeNames[] = {
    {"F64", torch::kFloat64}, {"F32", torch::kFloat32},
    {"F16", torch::kFloat16}, {"BF16", torch::kBFloat16},
    {"I64", torch::kInt64},   {"I32", torch::kInt32},
    {"I16", torch::kInt16},   {"I8", torch::kInt8},
    {"U8", torch::kUInt8},    {"BOOL", torch::kBool},
};

std::string name_of(torch::ScalarType type) {
  for (const auto& known : kTypeNames) {
    if (known.type == type) return known.name;
  }
  throw UsageError("[safetensors] no name for type " +
                   std::string(torch::toString(type)));
}

torch::ScalarType type_of(const std::string& name) {
  for (const auto& known : kTypeNames) {
    if (name == known.name) return known.type;
  }
  throw DataError("unknown dtype '" + name + "'");
}

uint64_t header_length(const std::string& bytes) {
  if (bytes.size() < kLengthBytes) throw DataError("shorter than its header");
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  if (length > kLargestHeader || length > bytes.size() - kLengthBytes) {
    throw DataError(
        fmt::format("its header should have {} bytes, the file has "
                    "{}",
                    length, bytes.size() - kLengthBytes));
  }
  return length;
}

struct Entry {
  std::string name;
  torch::ScalarType type;
  std::vector<int64_t> shape;
  uint64_t count;  // bytes of that shape
  uint64_t begin, end;
};

// A list of whole numbers that an int64 can hold. `get` alone would convert
// fractions, truth values and numbers beyond it, too.
std::vector<int64_t> whole_numbers(const json& list) {
  if (!list.is_array()) throw DataError("expected a list, got " + list.dump());
  std::vector<int64_t> numbers;
  for (const auto& item : list) {
    const bool whole = item.is_number_unsigned();
    numbers.push_back(whole ? item.get<int64_t>() : -1);
    if (numbers.back() < 0) {
      throw DataError(fmt::format(
          "expected a whole number of 0 or more, got {}", item.dump()));
    }
  }
  return numbers;
}

Entry read_entry(const std::string& name, const json& value) {
  const auto type = type_of(value.at("dtype").get<std::string>());
  const auto shape = whole_numbers(value.at("shape"));
  const auto count = array_bytes(shape, type);
  if (!count) throw DataError("tensor " + name + " has an impossible shape");
  const auto offsets = whole_numbers(value.at("data_offsets"));
  if (offsets.size() != 2) {
    throw DataError(fmt::format("tensor {} has {} data_offsets, not 2", name,
                                offsets.size()));
  }
  return {name,
          type,
          shape,
          *count,
          static_cast<uint64_t>(offsets[0]),
          static_cast<uint64_t>(offsets[1])};
}

// A bool may have no other byte than 0 and 1.
void expect_bools(const std::string& name, std::string_view bytes) {
  if (std::ranges::all_of(bytes, [](char c) { return c == 0 || c == 1; })) {
    return;
  }
  throw DataError("tensor " + name + " has a truth value besides 0 and 1");
}

Safetensors parse(const std::string& bytes) {
  const uint64_t length = header_length(bytes);
  const auto header =
      parse_json(std::string_view(bytes).substr(kLengthBytes, length));
  if (!header.is_object()) throw DataError("its header is not a JSON object");
  const char* data = bytes.data() + kLengthBytes + length;
  const uint64_t size = bytes.size() - kLengthBytes - length;
  Safetensors content;
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      content.metadata = value.get<std::map<std::string, std::string>>();
    } else {
      entries.push_back(read_entry(name, value));
    }
  }
  // The format allows neither holes nor overlaps, so that damage shows.
  std::ranges::sort(entries, {}, [](const Entry& entry) {
    return std::pair(entry.begin, entry.end);
  });
  uint64_t used = 0;
  for (const auto& entry : entries) {
    const uint64_t count = entry.count;
    if (entry.begin != used || entry.end < entry.begin || entry.end > size ||
        entry.end - entry.begin != count) {
      throw DataError(
          fmt::format("tensor {} expects {} bytes from {}, its "
                      "offsets are {} to {} of {}",
                      entry.name, count, used, entry.begin, entry.end, size));
    }
    if (entry.type == torch::kBool) {
      expect_bools(entry.name, {data + entry.begin, count});
    }
    auto tensor =
        torch::empty(entry.shape, torch::TensorOptions().dtype(entry.type));
    if (count > 0) std::memcpy(tensor.data_ptr(), data + entry.begin, count);
    content.tensors[entry.name] = tensor;
    used = entry.end;
  }
  if (used != size) {
    throw DataError(fmt::format("its tensors fill {} bytes of {}", used, size));
  }
  return content;
}

}  // namespace

std::string to_safetensors(const Safetensors& content) {
  json header = json::object();
  if (!content.metadata.empty()) header["__metadata__"] = content.metadata;
  std::vector<torch::Tensor> ordered;
  uint64_t offset = 0;
  for (const auto& [name, tensor] : content.tensors) {
    ordered.push_back(tensor.detach().to(torch::kCPU).contiguous());
    const uint64_t end = offset + ordered.back().nbytes();
    header[name] = {{"dtype", name_of(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data starts aligned
  std::string bytes;
  bytes.reserve(kLengthBytes + text.size() + offset);
  for (size_t i = 0; i < kLengthBytes; ++i) {
    bytes += static_cast<char>(uint64_t{text.size()} >> (8 * i));
  }
  bytes += text;
  for (const auto& tensor : ordered) {
    bytes.append(static_cast<const char*>(tensor.data_ptr()), tensor.nbytes());
  }
  return bytes;
}

Safetensors from_safetensors(const std::string& bytes,
                             const std::string& source) {
  try {
    return parse(bytes);
  } catch (const DataError& error) {
    throw DataError(fmt::format("{} is damaged: {}", source, error.what()));
  } catch (const json::exception& error) {
    throw DataError(fmt::format("{} is damaged: {}", source, error.what()));
  }
}

void save_safetensors(const std::filesystem::path& path,
                      const Safetensors& content) {
  write_file_atomically(path, to_safetensors(content));
}

Safetensors load_safetensors(const std::filesystem::path& path) {
  return from_safetensors(read_file(path), path.string());
}

}  // namespace propagator::data
