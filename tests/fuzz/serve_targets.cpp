// What strangers send to a server.

#include <fmt/format.h>

#include "fuzz/target.h"
#include "propagator/serve/datatype.h"
#include "propagator/serve/service.h"

namespace propagator::fuzz {
namespace {

using serve::InferRequest;

// The first line is the header that tells where the JSON ends, or empty.
void read_infer(const std::string& bytes) {
  static const serve::Ports inputs{{"x", {-1, 2}, ""}, {"n", {-1}, ""}},
      outputs{{"y", {-1}, ""}, {"z", {-1}, ""}};
  const auto end = std::min(bytes.find('\n'), bytes.size());
  const auto body = bytes.substr(std::min(end + 1, bytes.size()));
  std::optional<std::string> length;
  if (end > 0) length = bytes.substr(0, end);
  const auto request = serve::read_infer_request(body, length, inputs, outputs);
  expect(request.inputs.size() == 2, "every input is there");
  expect(!request.outputs.empty() && request.outputs.size() <= 2,
         "some outputs are asked for, each once");
  for (const auto& [name, values] : request.inputs) {
    expect(values.numel() == serve::numbers_in(values.sizes()),
           "as many numbers as the shape says");
  }
  serve::write_infer_response(
      request,
      {.outputs = {{"y", torch::ones({2})}, {"z", torch::ones({2})}},
       .guard = std::nullopt},
      "m", "v");
}

std::vector<std::string> infer_seeds() {
  const std::string binary =
      R"({"id": "1", "inputs": [{"name": "n", "shape": [1], "datatype": "FP16",)"
      R"( "parameters": {"binary_data_size": 2}},)"
      R"( {"name": "x", "shape": [1, 2], "datatype": "UINT64",)"
      R"( "parameters": {"binary_data_size": 16}}],)"
      R"( "parameters": {"binary_data_output": true, "guard": true}})";
  return {
      "\n"
      R"({"inputs": [{"name": "x", "shape": [2, 2], "datatype": "FP32",)"
      R"( "data": [[1, 2], [3, 4.5e-3]]}, {"name": "n", "shape": [2],)"
      R"( "datatype": "INT64", "data": [5, -6]}],)"
      R"( "outputs": [{"name": "y", "parameters": {"binary_data": true}}]})",
      fmt::format("{}\n{}{}", binary.size(), binary, std::string(18, '\1'))};
}

// "GET /path", and behind it a header in each line.
void read_head(const std::string& bytes) {
  static const serve::Service service(
      {}, {.access = {.key = "a-key-of-some-length",
                      .hosts = {"lab.example"},
                      .origin = "https://lab.example"}});
  serve::RequestHead head{.local_address = "127.0.0.1"};
  const auto begin = std::min(bytes.find('\n'), bytes.size());
  const auto space = std::min(bytes.find(' '), begin);
  head.method = bytes.substr(0, space);
  head.target = bytes.substr(space, begin - space);
  if (!head.target.empty()) head.target.erase(0, 1);
  for (size_t at = begin + 1; at < bytes.size();) {
    const auto end = std::min(bytes.find('\n', at), bytes.size());
    const auto line = bytes.substr(at, end - at);
    const auto colon = std::min(line.find(": "), line.size());
    head.fields.emplace_back(line.substr(0, colon),
                             line.substr(std::min(colon + 2, line.size())));
    at = end + 1;
  }
  service.admit(head);
  serve::Response response;
  service.access().add_permission(head, response);
}

std::vector<std::string> head_seeds() {
  return {"GET /v2/health/live\nHost: localhost:8000",
          "GET /metrics?all\nhost: 127.0.0.1:8000\nAuthorization: Bearer "
          "a-key-of-some-length",
          "OPTIONS /v2\nHost: lab.example\nOrigin: https://lab.example"};
}

}  // namespace

std::vector<Target> serve_targets() {
  return {{"infer_request", read_infer, infer_seeds},
          {"request_head", read_head, head_seeds}};
}

}  // namespace propagator::fuzz
