#include "propagator/data/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <numeric>
#include <set>

#include "propagator/core/error.h"
#include "propagator/core/plain_text.h"
#include "propagator/data/array_bytes.h"

namespace propagator::data {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kLongestHeader = 10'000;  // as in NumPy itself

struct TypeCode {
  const char* code;
  torch::ScalarType type;
};
constexpr TypeCode kTypeCodes[] = {
    {"<f4", torch::kFloat32}, {"<f8", torch::kFloat64},
    {"<i4", torch::kInt32},   {"<i8", torch::kInt64},
    {"|u1", torch::kUInt8},   {"<f2", torch::kFloat16},
};

torch::ScalarType type_of_code(const std::string& code) {
  for (const auto& known : kTypeCodes) {
    if (code == known.code) return known.type;
  }
  if (code == "|O") {
    throw DataError(
        "it holds Python objects, such as arrays of different shapes: a "
        "pickle, which is a program and is not run; store one array of "
        "numbers");
  }
  throw DataError(
      fmt::format("its type '{}' is not supported", plain_text(code)));
}

struct NpyWords {
  std::string type;
  bool fortran = false;
  std::vector<int64_t> shape;
};

// Reads the header, a dictionary in Python's words, once from front to back.
class NpyHeaderReader {
 public:
  explicit NpyHeaderReader(std::string_view text) : text_(text) {}

  NpyWords read() {
    NpyWords header;
    std::set<std::string> known;
    expect('{');
    while (!take('}')) {
      const auto key = quoted();
      known.insert(key);
      expect(':');
      if (key == "descr") {
        header.type = quoted();
      } else if (key == "fortran_order") {
        header.fortran = truth();
      } else if (key == "shape") {
        header.shape = sizes();
      } else {
        fail();
      }
      if (take(',')) continue;
      expect('}');
      break;
    }
    skip_blanks();
    if (!text_.empty() || known.size() != 3) fail();
    return header;
  }

 private:
  [[noreturn]] static void fail() {
    throw DataError("its header cannot be read");
  }

  void skip_blanks() {
    const size_t begin = text_.find_first_not_of(" \t\n");
    text_.remove_prefix(std::min(begin, text_.size()));
  }
  bool take(char c) {
    skip_blanks();
    if (!text_.starts_with(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail();
  }

  std::string quoted() {
    const char quote = take('\'') ? '\'' : '"';
    if (quote == '"') expect('"');
    const size_t end = text_.find(quote);
    if (end == std::string_view::npos) fail();
    const std::string word(text_.substr(0, end));
    text_.remove_prefix(end + 1);
    return word;
  }
  bool truth() {
    skip_blanks();
    const bool value = text_.starts_with("True");
    if (!value && !text_.starts_with("False")) fail();
    text_.remove_prefix(value ? 4 : 5);
    return value;
  }
  std::vector<int64_t> sizes() {
    std::vector<int64_t> sizes;
    expect('(');
    while (!take(')')) {
      const char* end = text_.data() + text_.size();
      const auto [rest, error] =
          std::from_chars(text_.data(), end, sizes.emplace_back());
      if (error != std::errc()) fail();
      text_ = std::string_view(rest, end);
      take('L');  // of Python 2
      if (take(',')) continue;
      expect(')');
      break;
    }
    return sizes;
  }

  std::string_view text_;
};

}  // namespace

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
  const size_t size = (kMagic.size() + 4 + header.size() + 1 + 63) / 64 * 64;
  header.resize(size - kMagic.size() - 4 - 1, ' ');
  header += '\n';
  std::string bytes(kMagic);
  bytes += '\x01';
  bytes += '\x00';
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  bytes.append(static_cast<const char*>(values.data_ptr()), values.nbytes());
  return bytes;
}

NpyHeader npy_header(const std::string& begin, uint64_t bytes) {
  if (begin.size() < 12 || !begin.starts_with(kMagic)) {
    throw DataError("it is not a .npy array");
  }
  const auto byte = [&](size_t at) {
    return static_cast<size_t>(static_cast<unsigned char>(begin[at]));
  };
  const bool old = begin[6] == 1;
  const size_t start = old ? 10 : 12;
  size_t length = byte(8) | byte(9) << 8;
  if (!old) length |= byte(10) << 16 | byte(11) << 24;
  if (length > kLongestHeader) throw DataError("its header is too long");
  if (start + length > begin.size()) throw DataError("its header is cut off");
  const auto [code, fortran, shape] =
      NpyHeaderReader(std::string_view(begin).substr(start, length)).read();
  const auto type = type_of_code(code);
  const auto expected = array_bytes(shape, type);
  const size_t data = start + length;
  if (!expected) throw DataError("its shape is impossible");
  if (*expected != bytes - data) {
    throw DataError(fmt::format("it should have {} bytes of data, got {}",
                                *expected, bytes - data));
  }
  return {type, fortran, shape, data};
}

torch::Tensor from_npy(const std::string& bytes) {
  auto [type, fortran, shape, data] = npy_header(bytes, bytes.size());
  if (fortran) std::reverse(shape.begin(), shape.end());
  auto tensor = torch::empty(shape, torch::TensorOptions().dtype(type));
  if (bytes.size() > data) {
    std::memcpy(tensor.data_ptr(), bytes.data() + data, bytes.size() - data);
  }
  if (!fortran) return tensor;
  std::vector<int64_t> order(shape.size());
  std::iota(order.rbegin(), order.rend(), 0);
  return tensor.permute(order).contiguous();
}

}  // namespace propagator::data
