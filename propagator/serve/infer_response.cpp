#include "propagator/serve/infer_response.h"

#include <charconv>
#include <cmath>
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

// An object without its closing brace, to which more is appended.
std::string opened(const json& object) {
  auto text = object.dump();
  text.pop_back();
  return text;
}

json parameters_of(const Answer& answer) {
  json parameters = json::object();
  if (!answer.guard) return parameters;
  const auto& guard = *answer.guard;
  if (guard.outside) {
    parameters["guard_inside"] = guard.outside->empty();
    if (!guard.outside->empty()) parameters["guard_outside"] = *guard.outside;
  }
  if (guard.residual) parameters["guard_residual"] = *guard.residual;
  return parameters;
}

}  // namespace

Response write_infer_response(const InferRequest& request, const Answer& answer,
                              const std::string& model,
                              const std::string& version) {
  json head{{"model_name", model}, {"model_version", version}};
  if (request.id) head["id"] = *request.id;
  if (const auto parameters = parameters_of(answer); !parameters.empty()) {
    head["parameters"] = parameters;
  }
  std::string text = opened(head) + R"(,"outputs":[)", binary;
  bool first = true, any_bytes = false;
  for (const auto& [name, as_bytes] : request.outputs) {
    const auto tensor = answer.outputs.at(name).contiguous();
    json output{{"name", name},
                {"datatype", name_of(datatype_of(tensor.scalar_type()))},
                {"shape", tensor.sizes().vec()}};
    if (as_bytes) output["parameters"]["binary_data_size"] = tensor.nbytes();
    if (!first) text += ',';
    first = false;
    text += opened(output);
    any_bytes = any_bytes || as_bytes;
    if (as_bytes) {
      binary += bytes_in(tensor);
    } else {
      append_data(tensor, text);
    }
    text += '}';
  }
  text += "]}";
  Response response;
  if (any_bytes) {
    response.content_type = "application/octet-stream";
    response.fields.emplace_back("Inference-Header-Content-Length",
                                 std::to_string(text.size()));
  }
  response.body = std::move(text) + binary;
  return response;
}

}  // namespace propagator::serve
