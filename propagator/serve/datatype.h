#pragma once

#include <torch/types.h>

#include <string>
#include <string_view>

namespace propagator::serve {

// The types of numbers that the protocol names. (Its BYTES, texts, are no
// numbers.)
enum class Datatype {
  kBool,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kFp16,
  kFp32,
  kFp64,
};

// "FP32"; UsageError lists what there is.
Datatype datatype_named(const std::string& name);
const char* name_of(Datatype datatype);
size_t bytes_of(Datatype datatype);
Datatype datatype_of(torch::ScalarType type);

// Little-endian numbers as a tensor of a type that libtorch computes with:
// float32, float64, int32 or int64. UsageError unless `bytes` is as long as the
// shape says, or if a number does not fit.
torch::Tensor tensor_from_bytes(std::string_view bytes, Datatype datatype,
                                torch::IntArrayRef shape);

// The product of the lengths; UsageError if one is negative or it has no
// number.
int64_t numbers_in(torch::IntArrayRef shape);

}  // namespace propagator::serve
