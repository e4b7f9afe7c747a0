#pragma once

#include <future>
#include <nlohmann/json.hpp>

#include "capi/open_runs.h"
#include "propagator/serve/service.h"

namespace propagator::serve {

// Of one thread, which is computed by whoever brings a request.
inline std::shared_ptr<const ServedModel> plate_model() {
  static const auto model = ServedModel::open(
      (testing::runs_folder() / "plate").string(),
      [](config::Document& run) { run.set("threads", "1", "test"); });
  return model;
}

// Of two, which has a thread of the batcher's own.
inline std::shared_ptr<const ServedModel> pde_model() {
  static const auto model = ServedModel::open(
      (testing::runs_folder() / "pde").string(),
      [](config::Document& run) { run.set("threads", "2", "test"); });
  return model;
}

// So many plates of `plate_model`, whose answers differ.
inline NamedTensors plates(int64_t cases, double level = 0.2) {
  const auto fields = torch::linspace(level, level + 0.5, cases * 3 * 6 * 7)
                          .view({cases, 3, 6, 7});
  return {{"fields", fields}, {"alpha", torch::linspace(0.02, 0.08, cases)}};
}

inline nlohmann::json as_input(const std::string& name,
                               const torch::Tensor& values) {
  const auto flat = values.to(torch::kFloat64).flatten().contiguous();
  const auto* first = flat.data_ptr<double>();
  return {{"name", name},
          {"datatype", "FP64"},
          {"shape", values.sizes().vec()},
          {"data", std::vector<double>(first, first + flat.numel())}};
}

// A request for all outputs, as JSON.
inline nlohmann::json as_request(const NamedTensors& inputs) {
  auto listed = nlohmann::json::array();
  for (const auto& [name, values] : inputs) {
    listed.push_back(as_input(name, values));
  }
  return {{"inputs", listed}};
}

// The head of a request as an ordinary client of this machine sends it.
inline RequestHead head_of(const std::string& method, const std::string& target,
                           Fields more = {}) {
  more.emplace_back("Host", "127.0.0.1:8000");
  return {method, target, more, "127.0.0.1"};
}

// The response of a handler, which is what its refusal says if it refuses.
inline Response asked(Handler& handler, Request request) {
  try {
    handler.admit(request.head);
  } catch (const std::exception& refusal) {
    return response_to(refusal);
  }
  std::promise<Response> promise;
  handler.answer(std::move(request), [&](Response response) {
    promise.set_value(std::move(response));
  });
  return promise.get_future().get();
}

inline nlohmann::json json_of(const Response& response) {
  return nlohmann::json::parse(response.body);
}

inline std::string error_of(const Response& response) {
  return json_of(response).at("error");
}

}  // namespace propagator::serve
