#include "propagator/serve/infer_response.h"

#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "propagator/serve/datatype.h"

namespace propagator::serve {
namespace {

using nlohmann::json;

// Of a contiguous tensor on the CPU.
std::string_view bytes_in(const torch::Tensor& tensor) {
  return {static_cast<const char*>(tensor.data_ptr()), tensor.nbytes()};
}

// The fewest digits that read back as the same number.
template <class Real>
void append_numbers(const torch::Tensor& tensor, std::string& text) {
  const auto* numbers = tensor.data_ptr<Real>();
  char digits[32];
  for (int64_t n = 0; n < tensor.numel(); ++n) {
    if (n > 0) text += ',';
    if (!std::isfinite(numbers[n])) {
      text += "null";
      continue;
    }
    const auto end = std::to_chars(digits, std::end(digits), numbers[n]).ptr;
    text.append(digits, end);
  }
}

void append_data(const torch::Tensor& tensor, std::string& text) {
  text += R"(,"data":[)";
  if (tensor.scalar_type() == torch::kFloat32) {
    append_numbers<float>(tensor, text);
  } else {
    append_numbers<double>(tensor, text);
  }
  text += ']';
}

// As a text of JSON.
std::string quoted(const std::string& text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

json parameters_of(const tasks::Guard& guard) {
  json parameters = json::object();
  if (guard.outside) {
    parameters["guard_inside"] = guard.outside->empty();
    if (!guard.outside->empty()) parameters["guard_outside"] = *guard.outside;
  }
  if (guard.residual) parameters["guard_residual"] = *guard.residual;
  return parameters;
}

void append_output(const InferRequest::Output& output,
                   const torch::Tensor& values, std::string& text) {
  fmt::format_to(
      std::back_inserter(text), R"({{"name":{},"datatype":"{}","shape":[{}])",
      quoted(output.name), name_of(datatype_of(values.scalar_type())),
      fmt::join(values.sizes(), ","));
  if (output.binary) {
    fmt::format_to(std::back_inserter(text),
                   R"(,"parameters":{{"binary_data_size":{}}})",
                   values.nbytes());
  } else {
    append_data(values, text);
  }
  text += '}';
}

}  // namespace

Response write_infer_response(const InferRequest& request, const Answer& answer,
                              const std::string& model,
                              const std::string& version) {
  Response response;
  auto& text = response.body;
  text = fmt::format(R"({{"model_name":{},"model_version":{})", quoted(model),
                     quoted(version));
  if (request.id) text += R"(,"id":)" + quoted(*request.id);
  if (answer.guard) {
    text += R"(,"parameters":)" + parameters_of(*answer.guard).dump();
  }
  text += R"(,"outputs":[)";
  std::vector<torch::Tensor> binary;
  size_t bytes = 0;
  for (const auto& output : request.outputs) {
    if (text.back() == '}') text += ',';
    const auto values = answer.outputs.at(output.name).contiguous();
    append_output(output, values, text);
    if (!output.binary) continue;
    binary.push_back(values);
    bytes += values.nbytes();
  }
  text += "]}";
  if (binary.empty()) return response;
  response.content_type = "application/octet-stream";
  response.fields.emplace_back("Inference-Header-Content-Length",
                               std::to_string(text.size()));
  text.reserve(text.size() + bytes);
  for (const auto& values : binary) text += bytes_in(values);
  return response;
}

}  // namespace propagator::serve
