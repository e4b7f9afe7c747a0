#include "propagator/serve/service.h"

#include <fmt/ranges.h>

#include <set>

#include "propagator/core/plain_text.h"
#include "propagator/core/version.h"
#include "propagator/serve/page.h"

namespace propagator::serve {
namespace {

Service::Models checked(Service::Models models) {
  std::set<std::string> names;
  for (const auto& model : models) {
    if (names.insert(model->name()).second) continue;
    throw UsageError(
        fmt::format("[serve] expected runs of different names, got two '{}'",
                    model->name()),
        "NAME=FOLDER gives a run another name");
  }
  return models;
}

// "/v2/models/quick" as "v2", "models", "quick".
std::vector<std::string_view> parts_of(std::string_view target) {
  auto path = target.substr(0, target.find('?'));
  std::vector<std::string_view> parts;
  while (path.starts_with('/')) {
    path.remove_prefix(1);
    const auto part = path.substr(0, path.find('/'));
    if (!part.empty()) parts.push_back(part);
    path.remove_prefix(part.size());
  }
  return parts;
}

Refused not_found(const std::string& what, const std::string& advice) {
  return {404, plain_text(what), advice};
}

Response as_json(const nlohmann::json& body) { return {.body = body.dump()}; }

bool has_public_health(const std::vector<std::string_view>& parts) {
  return parts.size() == 3 && parts[0] == "v2" && parts[1] == "health";
}

}  // namespace

Service::Service(Models models, const Options& options)
    : models_(checked(std::move(models))),
      answer_bytes_(options.answer_bytes),
      access_(options.access),
      batcher_(options.batcher, metrics_) {}

void Service::admit(const RequestHead& head) const {
  // Who watches over the server need not know the key, nor can a browser send
  // it when it asks for permission or for the page, which asks for the key.
  const auto parts = parts_of(head.target);
  const bool is_open =
      head.method == "OPTIONS" || parts.empty() || has_public_health(parts);
  access_.check(head, /*needs_key=*/!is_open);
  const auto route = route_of(head);
  if (head.method == "OPTIONS") return;
  const bool is_sent =
      route.subject == Subject::kInfer || route.subject == Subject::kCheck;
  const char* method = is_sent ? "POST" : "GET";
  if (head.method != method) {
    throw Refused(405,
                  fmt::format("expected {} for this path, got {}", method,
                              plain_text(head.method)),
                  "", {{"Allow", method}});
  }
  if (route.subject == Subject::kCheck) ProblemCheck::expect_short(head);
}

void Service::answer(Request request, Reply reply) {
  const auto permitted = [this, head = request.head,
                          reply = std::move(reply)](Response response) {
    access_.add_permission(head, response);
    reply(std::move(response));
  };
  try {
    if (request.head.method == "OPTIONS") {
      return permitted(access_.preflight(request.head));
    }
    const auto route = route_of(request.head);
    if (route.subject == Subject::kCheck) {
      return problem_check_.submit(std::move(request.body), permitted);
    }
    if (route.subject != Subject::kInfer) return permitted(describe(route));
    infer(route.model, request, permitted);
  } catch (const std::exception& error) {
    permitted(response_to(error));
  }
}

Service::Route Service::route_of(const RequestHead& head) const {
  const auto parts = parts_of(head.target);
  if (parts.empty() && head.target.starts_with('/'))
    return {Subject::kPage, nullptr};
  if (parts.size() == 1 && parts[0] == "metrics") {
    return {Subject::kMetrics, nullptr};
  }
  if (parts.size() == 1 && parts[0] == "check") {
    return {Subject::kCheck, nullptr};
  }
  if (!parts.empty() && parts[0] == "v2") {
    if (parts.size() == 1) return {Subject::kServer, nullptr};
    if (has_public_health(parts)) {
      if (parts[2] == "live") return {Subject::kLive, nullptr};
      if (parts[2] == "ready") return {Subject::kReady, nullptr};
    }
    if (parts[1] == "models" && parts.size() == 2) {
      return {Subject::kModels, nullptr};
    }
    if (parts[1] == "models") return route_of_model(parts);
  }
  throw not_found(fmt::format("there is nothing at {}", head.target),
                  "GET /v2/models lists the models");
}

// v2, models, NAME, perhaps versions and VERSION, and what is asked of it.
Service::Route Service::route_of_model(
    const std::vector<std::string_view>& parts) const {
  std::shared_ptr<const ServedModel> model;
  std::vector<std::string> names;
  for (const auto& one : models_) {
    names.push_back(one->name());
    if (one->name() == parts[2]) model = one;
  }
  if (model == nullptr) {
    throw not_found(fmt::format("there is no model '{}'", parts[2]),
                    fmt::format("there are {}", fmt::join(names, ", ")));
  }
  size_t next = 3;
  if (parts.size() > 4 && parts[3] == "versions") {
    if (parts[4] != model->version()) {
      throw not_found(fmt::format("there is no version '{}' of {}", parts[4],
                                  model->name()),
                      fmt::format("there is {}", model->version()));
    }
    next = 5;
  }
  if (parts.size() == next) return {Subject::kModel, model};
  if (parts.size() == next + 1 && parts[next] == "ready") {
    return {Subject::kModelReady, model};
  }
  if (parts.size() == next + 1 && parts[next] == "infer") {
    return {Subject::kInfer, model};
  }
  throw not_found(
      fmt::format("a model has no {}",
                  fmt::join(parts.begin() + next, parts.end(), "/")),
      "there are ready and infer");
}

Response Service::describe(const Route& route) const {
  switch (route.subject) {
    case Subject::kServer:
      return as_json({{"name", "propagator"},
                      {"version", code_version()},
                      {"extensions", {"binary_tensor_data"}}});
    case Subject::kLive:
      return as_json({{"live", true}});
    case Subject::kReady:
      return as_json({{"ready", true}});
    case Subject::kMetrics:
      return {.content_type = "text/plain; version=0.0.4",
              .body = metrics_.text()};
    case Subject::kModels:
      return as_json(model_names());
    case Subject::kModel:
      return as_json(route.model->metadata());
    case Subject::kModelReady:
      return as_json({{"name", route.model->name()}, {"ready", true}});
    default:
      return page();
  }
}

nlohmann::json Service::model_names() const {
  auto names = nlohmann::json::array();
  for (const auto& model : models_) names.push_back(model->name());
  return {{"models", names}};
}

void Service::infer(const std::shared_ptr<const ServedModel>& model,
                    const Request& request, const Reply& reply) {
  const Stopwatch clock;
  auto asked = read_infer_request(
      request.body, request.head.field("Inference-Header-Content-Length"),
      model->inputs(), model->outputs());
  model->expect_answer_within(asked.inputs, answer_bytes_);
  Batcher::Job job{model, std::move(asked.inputs), asked.guard, nullptr};
  job.done = [this, asked = std::move(asked), model, reply, clock](
                 const Answer& answer, std::exception_ptr error) {
    Response response;
    try {
      if (error) std::rethrow_exception(error);
      response =
          write_infer_response(asked, answer, model->name(), model->version());
    } catch (const std::exception& caught) {
      response = response_to(caught);
    }
    metrics_.inferred(model->name(), clock.seconds());
    reply(std::move(response));
  };
  batcher_.submit(std::move(job));
}

}  // namespace propagator::serve
