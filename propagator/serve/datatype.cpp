#include "propagator/serve/datatype.h"

#include <fmt/ranges.h>

#include <bit>
#include <cstring>
#include <limits>

#include "propagator/core/error.h"

namespace propagator::serve {
namespace {

static_assert(std::endian::native == std::endian::little);

struct Kind {
  Datatype datatype;
  const char* name;
  size_t bytes;
};
constexpr Kind kKinds[] = {
    {Datatype::kBool, "BOOL", 1},     {Datatype::kInt8, "INT8", 1},
    {Datatype::kInt16, "INT16", 2},   {Datatype::kInt32, "INT32", 4},
    {Datatype::kInt64, "INT64", 8},   {Datatype::kUint8, "UINT8", 1},
    {Datatype::kUint16, "UINT16", 2}, {Datatype::kUint32, "UINT32", 4},
    {Datatype::kUint64, "UINT64", 8}, {Datatype::kFp16, "FP16", 2},
    {Datatype::kFp32, "FP32", 4},     {Datatype::kFp64, "FP64", 8},
};

const Kind& kind_of(Datatype datatype) {
  return kKinds[static_cast<size_t>(datatype)];
}

// Bytes as numbers of type From, kept as To.
template <class From, class To>
torch::Tensor copied(std::string_view bytes, torch::IntArrayRef shape,
                     torch::ScalarType type) {
  auto tensor = torch::empty(shape, type);
  auto* to = tensor.template data_ptr<To>();
  const size_t count = bytes.size() / sizeof(From);
  if constexpr (std::is_same_v<From, To>) {
    if (count > 0) std::memcpy(to, bytes.data(), bytes.size());
    return tensor;
  }
  for (size_t n = 0; n < count; ++n) {
    From number;
    std::memcpy(&number, bytes.data() + n * sizeof(From), sizeof(From));
    if constexpr (std::is_same_v<From, uint64_t>) {
      if (number > static_cast<uint64_t>(std::numeric_limits<To>::max())) {
        throw UsageError(
            fmt::format("expected UINT64 below 2^63, got {}", number));
      }
    }
    to[n] = static_cast<To>(number);
  }
  return tensor;
}

}  // namespace

Datatype datatype_named(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& kind : kKinds) {
    if (name == kind.name) return kind.datatype;
    names.emplace_back(kind.name);
  }
  throw UsageError(fmt::format("expected a datatype of {}, got '{}'",
                               fmt::join(names, ", "), name));
}

const char* name_of(Datatype datatype) { return kind_of(datatype).name; }
size_t bytes_of(Datatype datatype) { return kind_of(datatype).bytes; }

Datatype datatype_of(torch::ScalarType type) {
  return type == torch::kFloat32 ? Datatype::kFp32 : Datatype::kFp64;
}

int64_t numbers_in(torch::IntArrayRef shape) {
  int64_t count = 1;
  for (const int64_t length : shape) {
    if (length < 0 || __builtin_mul_overflow(count, length, &count)) {
      throw UsageError(
          fmt::format("expected a shape that fits in memory, got ({})",
                      fmt::join(shape, ", ")));
    }
  }
  return count;
}

torch::Tensor tensor_from_bytes(std::string_view bytes, Datatype datatype,
                                torch::IntArrayRef shape) {
  const auto count = static_cast<uint64_t>(numbers_in(shape));
  const size_t size = bytes_of(datatype);
  if (bytes.size() % size != 0 || bytes.size() / size != count) {
    throw UsageError(
        fmt::format("expected {} numbers of {} bytes for the shape "
                    "({}), got {} bytes",
                    count, size, fmt::join(shape, ", "), bytes.size()));
  }
  using enum Datatype;
  switch (datatype) {
    case kBool:
    case kUint8:
      return copied<uint8_t, int32_t>(bytes, shape, torch::kInt32);
    case kInt8:
      return copied<int8_t, int32_t>(bytes, shape, torch::kInt32);
    case kInt16:
      return copied<int16_t, int32_t>(bytes, shape, torch::kInt32);
    case kUint16:
      return copied<uint16_t, int32_t>(bytes, shape, torch::kInt32);
    case kInt32:
      return copied<int32_t, int32_t>(bytes, shape, torch::kInt32);
    case kUint32:
      return copied<uint32_t, int64_t>(bytes, shape, torch::kInt64);
    case kInt64:
      return copied<int64_t, int64_t>(bytes, shape, torch::kInt64);
    case kUint64:
      return copied<uint64_t, int64_t>(bytes, shape, torch::kInt64);
    case kFp16:
      return copied<c10::Half, float>(bytes, shape, torch::kFloat32);
    case kFp32:
      return copied<float, float>(bytes, shape, torch::kFloat32);
    case kFp64:
      return copied<double, double>(bytes, shape, torch::kFloat64);
  }
  throw UsageError("expected a datatype");
}

}  // namespace propagator::serve
