#include "propagator/serve/infer_request.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "propagator/core/config.h"
#include "propagator/core/error.h"
#include "propagator/core/json.h"
#include "propagator/serve/datatype.h"

namespace propagator::serve {
namespace {

using nlohmann::json;

// Numbers in JSON take many times their bytes while they are read.
constexpr size_t kMostJson = size_t{16} << 20;
constexpr size_t kMostAxes = 16;
constexpr size_t kLongestId = 256;
constexpr int64_t kExact = int64_t{1} << 53;  // integers in a double

// A member of an object, or null; UsageError if it is of another type.
const json* member(const json& object, const char* key,
                   bool (json::*is_right)() const noexcept, const char* type) {
  const auto found = object.find(key);
  if (found == object.end()) return nullptr;
  if (((*found).*is_right)()) return &*found;
  throw UsageError(fmt::format("expected '{}' to be {}, got {}", key, type,
                               found->type_name()));
}

const json& needed(const json* found, const char* key, const std::string& of) {
  if (found != nullptr) return *found;
  throw UsageError(fmt::format("expected '{}' {}, got none", key, of));
}

void expect_object(const json& value, const std::string& what) {
  if (value.is_object()) return;
  throw UsageError(fmt::format("expected {} to be an object, got {}", what,
                               value.type_name()));
}

const json* parameter(const json& object, const char* key,
                      bool (json::*is_right)() const noexcept,
                      const char* type) {
  const auto* all = member(object, "parameters", &json::is_object, "an object");
  return all == nullptr ? nullptr : member(*all, key, is_right, type);
}

std::optional<bool> flag(const json& object, const char* key) {
  const auto* found =
      parameter(object, key, &json::is_boolean, "true or false");
  if (found == nullptr) return std::nullopt;
  return found->get<bool>();
}

std::string name_in(const json& object, const std::string& what) {
  expect_object(object, what);
  return needed(member(object, "name", &json::is_string, "a text"), "name",
                "of " + what);
}

// Whole, and exact as a double.
int64_t integer(const json& number, const std::string& what) {
  const bool fits =
      number.is_number_integer() &&
      (number.is_number_unsigned() ? number.get<uint64_t>() <= uint64_t{kExact}
                                   : number.get<int64_t>() >= -kExact);
  if (fits) return number.get<int64_t>();
  throw UsageError(fmt::format("expected {} of at most 2^53, got {}", what,
                               number.dump(-1, ' ', true).substr(0, 40)));
}

std::vector<int64_t> shape_in(const json& input) {
  const auto& listed = needed(member(input, "shape", &json::is_array, "a list"),
                              "shape", "of an input");
  if (listed.size() > kMostAxes) {
    throw UsageError(fmt::format("expected at most {} axes, got {}", kMostAxes,
                                 listed.size()));
  }
  std::vector<int64_t> shape;
  for (const auto& length : listed) {
    shape.push_back(integer(length, "a length of a shape"));
  }
  return shape;
}

// The numbers of nested lists in their order.
void append(const json& data, bool integers, std::vector<double>& numbers) {
  if (data.is_array()) {
    for (const auto& part : data) append(part, integers, numbers);
  } else if (data.is_boolean()) {
    numbers.push_back(data.get<bool>() ? 1 : 0);
  } else if (data.is_number_integer() || integers) {
    numbers.push_back(static_cast<double>(integer(data, "whole numbers")));
  } else if (data.is_number()) {
    numbers.push_back(data.get<double>());
  } else {
    throw UsageError(
        fmt::format("expected 'data' of numbers, got {}", data.type_name()));
  }
}

bool is_whole(Datatype datatype) { return datatype < Datatype::kFp16; }

torch::Tensor tensor_from_json(const json& data, Datatype datatype,
                               torch::IntArrayRef shape) {
  std::vector<double> numbers;
  append(data, is_whole(datatype), numbers);
  if (std::ssize(numbers) != numbers_in(shape)) {
    throw UsageError(
        fmt::format("expected {} numbers for the shape ({}), got {}",
                    numbers_in(shape), fmt::join(shape, ", "), numbers.size()));
  }
  const auto tensor = torch::tensor(numbers, torch::kFloat64).view(shape);
  if (is_whole(datatype)) return tensor.to(torch::kInt64);
  return tensor.to(datatype == Datatype::kFp64 ? torch::kFloat64
                                               : torch::kFloat32);
}

// The next bytes of the binary part.
std::string_view taken(std::string_view& rest, int64_t bytes) {
  if (bytes < 0 || static_cast<uint64_t>(bytes) > rest.size()) {
    throw UsageError(
        fmt::format("expected 'binary_data_size' of at most the {} bytes that "
                    "are left of the body, got {}",
                    rest.size(), bytes));
  }
  const auto part = rest.substr(0, static_cast<size_t>(bytes));
  rest.remove_prefix(static_cast<size_t>(bytes));
  return part;
}

torch::Tensor tensor_of(const json& input, std::string_view& binary) {
  const auto shape = shape_in(input);
  const std::string type =
      needed(member(input, "datatype", &json::is_string, "a text"), "datatype",
             "of an input");
  const auto datatype = datatype_named(type);
  const auto* size = parameter(input, "binary_data_size",
                               &json::is_number_integer, "a whole number");
  const auto* data = member(input, "data", &json::is_array, "a list");
  if ((size == nullptr) == (data == nullptr)) {
    throw UsageError("expected either 'data' or 'binary_data_size' of an input",
                     "the second is one of its 'parameters'");
  }
  if (data != nullptr) return tensor_from_json(*data, datatype, shape);
  const auto bytes = taken(binary, integer(*size, "binary_data_size"));
  return tensor_from_bytes(bytes, datatype, shape);
}

const tasks::Surrogate::Port& port_named(const Ports& ports,
                                         const std::string& name,
                                         const char* kind) {
  std::vector<std::string> names;
  for (const auto& port : ports) {
    if (port.name == name) return port;
    names.push_back(port.name);
  }
  throw UsageError(
      fmt::format("expected an {} of this model, got '{}'", kind, name),
      config::did_you_mean(
          name, names, fmt::format("there are {}", fmt::join(names, ", "))));
}

NamedTensors read_inputs(const json& request, std::string_view binary,
                         const Ports& ports) {
  NamedTensors inputs;
  for (const auto& input :
       needed(member(request, "inputs", &json::is_array, "a list"), "inputs",
              "of the request")) {
    const auto name = name_in(input, "an input");
    port_named(ports, name, "input");
    try {
      if (!inputs.emplace(name, tensor_of(input, binary)).second) {
        throw UsageError("expected once, got twice");
      }
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("input '{}': {}", name, error.what()),
                       error.hint());
    }
  }
  for (const auto& port : ports) {
    if (inputs.contains(port.name)) continue;
    throw UsageError(fmt::format("expected an input '{}', got none", port.name),
                     "it is: " + port.meaning);
  }
  if (!binary.empty()) {
    throw UsageError(
        fmt::format("expected a body that ends with its tensors, "
                    "got {} bytes behind them",
                    binary.size()));
  }
  return inputs;
}

std::vector<InferRequest::Output> read_outputs(const json& request,
                                               const Ports& ports) {
  const bool binary = flag(request, "binary_data_output").value_or(false);
  std::vector<InferRequest::Output> outputs;
  const auto* listed = member(request, "outputs", &json::is_array, "a list");
  if (listed == nullptr || listed->empty()) {
    for (const auto& port : ports) outputs.push_back({port.name, binary});
    return outputs;
  }
  for (const auto& output : *listed) {
    const auto name = name_in(output, "an output");
    port_named(ports, name, "output");
    if (std::ranges::find(outputs, name, &InferRequest::Output::name) !=
        outputs.end()) {
      throw UsageError(
          fmt::format("output '{}': expected once, got twice", name));
    }
    outputs.push_back({name, flag(output, "binary_data").value_or(binary)});
  }
  return outputs;
}

size_t length_of_json(std::string_view body,
                      const std::optional<std::string>& given) {
  if (!given) return body.size();
  size_t length = 0;
  const char* end = given->data() + given->size();
  const auto [rest, error] = std::from_chars(given->data(), end, length);
  if (error == std::errc() && rest == end && length <= body.size()) {
    return length;
  }
  throw UsageError(
      fmt::format("expected Inference-Header-Content-Length of at most the {} "
                  "bytes of the body, got '{}'",
                  body.size(), given->substr(0, 40)));
}

}  // namespace

InferRequest read_infer_request(std::string_view body,
                                std::optional<std::string> json_bytes,
                                const Ports& inputs, const Ports& outputs) {
  const size_t length = length_of_json(body, json_bytes);
  if (length > kMostJson) {
    throw UsageError(fmt::format("expected at most {} bytes of JSON, got {}",
                                 kMostJson, length),
                     "send large tensors as binary data");
  }
  const auto request = parse_json(body.substr(0, length));
  if (request.is_discarded()) throw UsageError("expected JSON, got none");
  expect_object(request, "the request");
  InferRequest read;
  if (const auto* id = member(request, "id", &json::is_string, "a text")) {
    read.id = id->get<std::string>();
    if (read.id->size() > kLongestId) {
      throw UsageError(
          fmt::format("expected 'id' of at most {} bytes", kLongestId));
    }
  }
  read.guard = flag(request, "guard").value_or(false);
  read.inputs = read_inputs(request, body.substr(length), inputs);
  read.outputs = read_outputs(request, outputs);
  return read;
}

}  // namespace propagator::serve
