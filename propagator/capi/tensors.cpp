#include "propagator/capi/tensors.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "propagator/core/device.h"
#include "propagator/core/error.h"

namespace propagator::capi {
namespace {

// "[pg_apply] input 'fields'": the beginning of what is wrong with it.
struct Where {
  const char* function;
  const char* kind;
  std::string name;

  std::string text() const {
    return fmt::format("[{}] {} '{}'", function, kind, name);
  }
};

torch::ScalarType type_of(const pg_tensor& tensor, const Where& where) {
  switch (tensor.type) {
    case PG_FLOAT32:
      return torch::kFloat32;
    case PG_FLOAT64:
      return torch::kFloat64;
    case PG_INT32:
      return torch::kInt32;
    case PG_INT64:
      return torch::kInt64;
    default:
      throw UsageError(fmt::format(
          "{}: expected the type PG_FLOAT32, PG_FLOAT64, PG_INT32 or PG_INT64, "
          "got {}",
          where.text(), tensor.type));
  }
}

torch::Device device_of(const pg_tensor& tensor, const Where& where) {
  if (tensor.device == PG_CPU && tensor.device_index == 0) return torch::kCPU;
  if (tensor.device != PG_CUDA || tensor.device_index < 0 ||
      tensor.device_index > 999) {
    throw UsageError(fmt::format(
        "{}: expected the device PG_CPU 0 or PG_CUDA 0, 1, ..., got {} {}",
        where.text(), tensor.device, tensor.device_index));
  }
  return make_runtime(fmt::format("cuda:{}", tensor.device_index),
                      Precision::kFloat32)
      .device;
}

torch::IntArrayRef shape_of(const pg_tensor& tensor, const Where& where) {
  if (tensor.rank < 0 || tensor.rank > PG_MAX_RANK) {
    throw UsageError(fmt::format("{}: expected a rank from 0 to {}, got {}",
                                 where.text(), PG_MAX_RANK, tensor.rank));
  }
  if (tensor.rank > 0 && tensor.shape == nullptr) {
    throw UsageError(
        fmt::format("{}: expected a shape of {} numbers, got a "
                    "null pointer",
                    where.text(), tensor.rank));
  }
  const torch::IntArrayRef shape(tensor.shape,
                                 static_cast<size_t>(tensor.rank));
  if (std::ranges::any_of(shape, [](int64_t n) { return n < 0; })) {
    throw UsageError(fmt::format("{}: expected lengths of 0 or more, got ({})",
                                 where.text(), fmt::join(shape, ", ")));
  }
  return shape;
}

// Those given, or of a row-major array without gaps. UsageError if the bytes
// from the first to the last element have no number.
std::vector<int64_t> strides_of(const pg_tensor& tensor,
                                torch::IntArrayRef shape, size_t item,
                                const Where& where) {
  std::vector<int64_t> strides(shape.size());
  int64_t elements = 1, bytes = static_cast<int64_t>(item);
  bool fits = true;
  for (size_t k = shape.size(); k-- > 0;) {
    strides[k] = tensor.strides != nullptr ? tensor.strides[k] : elements;
    if (strides[k] < 0) {
      throw UsageError(
          fmt::format(
              "{}: expected strides of 0 or more, got ({})", where.text(),
              fmt::join(torch::IntArrayRef(tensor.strides, shape.size()),
                        ", ")),
          "an array that runs backwards must be copied first");
    }
    const int64_t length = std::max<int64_t>(shape[k], 1);
    int64_t reach = 0;
    fits = fits && !__builtin_mul_overflow(elements, length, &elements) &&
           !__builtin_mul_overflow(length - 1, strides[k], &reach) &&
           !__builtin_mul_overflow(reach, static_cast<int64_t>(item), &reach) &&
           !__builtin_add_overflow(bytes, reach, &bytes);
  }
  if (!fits) {
    throw UsageError(
        fmt::format("{}: expected an array that fits in memory, "
                    "got the shape ({})",
                    where.text(), fmt::join(shape, ", ")));
  }
  return strides;
}

void expect_memory(const pg_tensor& tensor, torch::IntArrayRef shape,
                   size_t item, const Where& where) {
  const bool empty =
      std::ranges::any_of(shape, [](int64_t n) { return n == 0; });
  if (tensor.data == nullptr && !empty) {
    throw UsageError(
        fmt::format("{}: expected ({}) numbers, got a null "
                    "pointer",
                    where.text(), fmt::join(shape, ", ")));
  }
  if (reinterpret_cast<uintptr_t>(tensor.data) % item != 0) {
    throw UsageError(fmt::format(
        "{}: expected data at a multiple of {} bytes, got an address between",
        where.text(), item));
  }
}

torch::Tensor view_of(const pg_tensor& tensor, const Where& where) {
  const auto type = type_of(tensor, where);
  const size_t item = torch::elementSize(type);
  const auto shape = shape_of(tensor, where);
  const auto strides = strides_of(tensor, shape, item, where);
  expect_memory(tensor, shape, item, where);
  return torch::from_blob(
      tensor.data, shape, strides,
      torch::TensorOptions().dtype(type).device(device_of(tensor, where)));
}

// Axes with the smaller stride first: each must step over all before it.
bool elements_share_memory(const torch::Tensor& tensor) {
  std::vector<std::pair<int64_t, int64_t>> axes;  // stride, length
  for (int64_t k = 0; k < tensor.dim(); ++k) {
    if (tensor.size(k) > 1) axes.emplace_back(tensor.stride(k), tensor.size(k));
  }
  std::ranges::sort(axes);
  int64_t reach = 0;
  for (const auto& [stride, length] : axes) {
    if (stride <= reach) return tensor.numel() > 0;
    reach += stride * (length - 1);
  }
  return false;
}

bool has_shape(const torch::Tensor& tensor, const pg_port& port) {
  if (tensor.dim() != port.rank) return false;
  for (int32_t k = 0; k < port.rank; ++k) {
    if (port.shape[k] >= 0 && port.shape[k] != tensor.size(k)) return false;
  }
  return true;
}

std::string text_of(const pg_port& port) {
  std::vector<std::string> lengths;
  for (int32_t k = 0; k < port.rank; ++k) {
    lengths.push_back(port.shape[k] < 0 ? "any"
                                        : std::to_string(port.shape[k]));
  }
  return fmt::format("{}", fmt::join(lengths, ", "));
}

void expect_writable(const torch::Tensor& tensor, const pg_port& port,
                     const Where& where) {
  if (!tensor.is_floating_point()) {
    throw UsageError(fmt::format(
        "{}: expected PG_FLOAT32 or PG_FLOAT64, got integers", where.text()));
  }
  // Answers may have more axes than ports of points say: (…) for (any).
  const bool open = port.rank == 1 && port.shape[0] < 0;
  if (!open && !has_shape(tensor, port)) {
    throw UsageError(fmt::format("{}: expected the shape ({}), got ({})",
                                 where.text(), text_of(port),
                                 fmt::join(tensor.sizes(), ", ")));
  }
  if (elements_share_memory(tensor)) {
    throw UsageError(
        fmt::format("{}: expected strides that give each element a place of "
                    "its own, got ({}) for the shape ({})",
                    where.text(), fmt::join(tensor.strides(), ", "),
                    fmt::join(tensor.sizes(), ", ")),
        "strides are in elements, not in bytes");
  }
}

// Calls `use(tensor, port, where)` for each.
template <class Use>
tasks::NamedTensors views(const char* function, const char* kind,
                          std::span<const pg_tensor> tensors,
                          const OpenRun::Ports& ports, Use&& use) {
  tasks::NamedTensors views;
  for (size_t n = 0; n < tensors.size(); ++n) {
    if (tensors[n].name == nullptr) {
      throw UsageError(
          fmt::format("[{}] expected a name for {} {}, got a null pointer",
                      function, kind, n));
    }
    const auto& port = ports.named(function, kind, tensors[n].name);
    const Where where{function, kind, port.name};
    auto view = view_of(tensors[n], where);
    use(view, port, where);
    if (!views.emplace(port.name, std::move(view)).second) {
      throw UsageError(where.text() + ": expected once, got twice");
    }
  }
  return views;
}

// The addresses of its first byte and behind its last; the same if it is empty.
std::pair<const char*, const char*> bytes_of(const torch::Tensor& tensor) {
  const auto* begin = static_cast<const char*>(tensor.data_ptr());
  if (tensor.numel() == 0) return {begin, begin};
  int64_t last = 0;
  for (int64_t k = 0; k < tensor.dim(); ++k) {
    last += (tensor.size(k) - 1) * tensor.stride(k);
  }
  return {begin, begin + (last + 1) * tensor.element_size()};
}

}  // namespace

tasks::NamedTensors input_tensors(const char* function,
                                  std::span<const pg_tensor> tensors,
                                  const OpenRun::Ports& ports) {
  auto inputs = views(function, "input", tensors, ports,
                      [](const auto&, const auto&, const auto&) {});
  for (const auto& port : ports.all()) {
    if (inputs.contains(port.name)) continue;
    throw UsageError(fmt::format("[{}] expected an input '{}', got none",
                                 function, port.name),
                     fmt::format("it is: {}", port.meaning));
  }
  return inputs;
}

tasks::NamedTensors output_tensors(const char* function,
                                   std::span<const pg_tensor> tensors,
                                   const OpenRun::Ports& ports) {
  return views(function, "output", tensors, ports, expect_writable);
}

bool may_overlap(const tasks::NamedTensors& inputs,
                 const tasks::NamedTensors& outputs) {
  for (const auto& [in_name, in] : inputs) {
    const auto [in_begin, in_end] = bytes_of(in);
    for (const auto& [out_name, out] : outputs) {
      const auto [begin, end] = bytes_of(out);
      if (begin < in_end && in_begin < end) return true;
    }
  }
  return false;
}

}  // namespace propagator::capi
