#pragma once

#include <span>

#include "propagator/capi/open_run.h"

namespace propagator::capi {

// The caller's arrays by name, in place: nothing is copied. UsageError names
// the function and the tensor if a name is none of `ports` or comes twice, if a
// type, device, rank, length or stride cannot be, or if a pointer is null or
// not aligned; for outputs also if two elements share memory, or if the port
// says another shape. DeviceError for a device that is not there.
tasks::NamedTensors input_tensors(const char* function,
                                  std::span<const pg_tensor> tensors,
                                  const OpenRun::Ports& ports);
tasks::NamedTensors output_tensors(const char* function,
                                   std::span<const pg_tensor> tensors,
                                   const OpenRun::Ports& ports);

// Whether some memory of an output lies between the first and the last element
// of an input.
bool may_overlap(const tasks::NamedTensors& inputs,
                 const tasks::NamedTensors& outputs);

}  // namespace propagator::capi
