#include <fmt/ranges.h>
#include <matio.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <limits>

#include "propagator/core/error.h"
#include "propagator/core/trial.h"
#include "propagator/data/array_bytes.h"
#include "propagator/data/axes.h"
#include "propagator/data/mat.h"

namespace propagator::data {
namespace {

namespace fs = std::filesystem;
using MatFile = std::unique_ptr<mat_t, decltype(&Mat_Close)>;
using MatVariable = std::unique_ptr<matvar_t, decltype(&Mat_VarFree)>;

// Bytes of an array for one byte of its file: deflate gives 1032 at most.
constexpr uint64_t kDensestMat = 1100;
// Kinds of what stands at the top of a file.
constexpr uint32_t kMatrix = 14, kCompressed = 15;

[[noreturn]] void fail_damaged(const fs::path& path, const std::string& how) {
  throw DataError(
      fmt::format("{} is a damaged .mat file: {}", path.string(), how));
}

// How many variables a file has, by the lengths in front of them. matio takes a
// file that was cut for one with fewer of them.
int64_t count_variables(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(126);
  const bool swapped = file.get() == 'M';  // by a machine with the other order
  const uint64_t size = fs::file_size(path);
  int64_t count = 0;
  uint64_t at = 128;
  while (at < size) {
    unsigned char bytes[8] = {};
    file.seekg(static_cast<std::streamoff>(at));
    file.read(reinterpret_cast<char*>(bytes), sizeof bytes);
    const auto number = [&](int from) {
      uint32_t value = 0;
      for (int i = 0; i < 4; ++i) {
        value |= static_cast<uint32_t>(bytes[from + (swapped ? 3 - i : i)])
                 << (8 * i);
      }
      return value;
    };
    const auto kind = number(0);
    if (!file || (kind != kMatrix && kind != kCompressed) ||
        number(4) > size - at - sizeof bytes) {
      fail_damaged(path, fmt::format("variable {} is not whole", count + 1));
    }
    at += sizeof bytes + number(4);
    ++count;
  }
  return count;
}

bool is_array_of_numbers(const matvar_t& variable) {
  return variable.class_type >= MAT_C_DOUBLE &&
         variable.class_type <= MAT_C_UINT64 && variable.isComplex == 0 &&
         variable.rank > 0 && variable.dims != nullptr;
}

// DataError if the file is too small for it.
std::vector<int64_t> shape_of(const matvar_t& variable, const fs::path& path) {
  std::vector<int64_t> shape;
  for (int d = 0; d < variable.rank; ++d) {
    const size_t side = variable.dims[d];
    const bool counts = side <= std::numeric_limits<int32_t>::max();
    shape.push_back(counts ? static_cast<int64_t>(side) : -1);
  }
  const auto bytes = array_bytes(shape, torch::kFloat64);
  if (!bytes || *bytes / kDensestMat > fs::file_size(path)) {
    fail_damaged(path, fmt::format("it is too small for '{}', ({})",
                                   variable.name, fmt::join(shape, ", ")));
  }
  return shape;
}

// Calls `take` with every array of numbers and its shape, and `leave` with the
// name of what else the file has. No work of libtorch: a trial has no threads.
void visit(const fs::path& path,
           const std::function<void(const matvar_t&,
                                    const std::vector<int64_t>&)>& take,
           const std::function<void(const std::string&)>& leave) {
  const int64_t count = count_variables(path);
  const MatFile file(Mat_Open(path.c_str(), MAT_ACC_RDONLY), &Mat_Close);
  if (file == nullptr) fail_damaged(path, "it cannot be opened");
  for (int64_t n = 0; n < count; ++n) {
    const MatVariable variable(Mat_VarReadNextInfo(file.get()), &Mat_VarFree);
    if (variable == nullptr) {
      fail_damaged(path, fmt::format("variable {} cannot be read", n + 1));
    }
    if (variable->name == nullptr) continue;  // data of MATLAB's own
    if (!is_array_of_numbers(*variable)) {
      leave(variable->name);
      continue;
    }
    const auto shape = shape_of(*variable, path);
    const bool none = std::ranges::count(shape, 0) > 0;
    if (!none && (Mat_VarReadDataAll(file.get(), variable.get()) != 0 ||
                  variable->data == nullptr)) {
      fail_damaged(path, fmt::format("'{}' cannot be read", variable->name));
    }
    take(*variable, shape);
  }
}

template <class Number, class Ours = double>
torch::Tensor copy_of(const matvar_t& variable, int64_t count) {
  const auto numbers = static_cast<size_t>(count);
  if (static_cast<size_t>(variable.data_size) != sizeof(Number) ||
      variable.nbytes / sizeof(Number) < numbers) {
    throw DataError(
        fmt::format("'{}' has another size than its type", variable.name));
  }
  torch::Tensor tensor =
      torch::empty({count}, c10::CppTypeToScalarType<Ours>::value);
  const auto* from = static_cast<const Number*>(variable.data);
  std::copy(from, from + count, tensor.data_ptr<Ours>());
  return tensor;
}

torch::Tensor numbers_of(const matvar_t& v, int64_t count) {
  switch (v.class_type) {
    case MAT_C_SINGLE:
      return copy_of<float, float>(v, count);
    case MAT_C_INT8:
      return copy_of<int8_t>(v, count);
    case MAT_C_UINT8:
      return copy_of<uint8_t>(v, count);
    case MAT_C_INT16:
      return copy_of<int16_t>(v, count);
    case MAT_C_UINT16:
      return copy_of<uint16_t>(v, count);
    case MAT_C_INT32:
      return copy_of<int32_t>(v, count);
    case MAT_C_UINT32:
      return copy_of<uint32_t>(v, count);
    case MAT_C_INT64:
      return copy_of<int64_t>(v, count);
    case MAT_C_UINT64:
      return copy_of<uint64_t>(v, count);
    default:
      return copy_of<double>(v, count);
  }
}

// The first index is the fastest in the file, and the last one with us.
torch::Tensor array_of(const matvar_t& variable,
                       const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t side : shape) count *= side;
  if (count == 0) return torch::zeros(shape, torch::kFloat64);
  const std::vector<int64_t> reversed(shape.rbegin(), shape.rend());
  return with_axes_reversed(numbers_of(variable, count).reshape(reversed))
      .contiguous();
}

}  // namespace

Mat5 load_mat5(const fs::path& path) {
  // matio trusts what it finds in a file: first a copy of this process reads
  // it, with memory and time for a whole one.
  const uint64_t size = fs::file_size(path);
  const TrialLimits limits{
      .bytes = (uint64_t{1} << 30) + 20 * size,
      .computing_seconds = static_cast<unsigned>(5 + (size >> 23))};
  const auto nothing = [](const auto&...) {};
  if (!ends_well([&] { visit(path, nothing, nothing); }, limits)) {
    count_variables(path);  // its error says more
    fail_damaged(path, "what it holds contradicts itself");
  }
  Mat5 content;
  const auto take = [&](const matvar_t& variable,
                        const std::vector<int64_t>& shape) {
    content.tensors[variable.name] = array_of(variable, shape);
  };
  visit(path, take,
        [&](const std::string& name) { content.unread.push_back(name); });
  return content;
}

bool has_matio() { return true; }

}  // namespace propagator::data
