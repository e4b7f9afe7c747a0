#include "propagator/serve/problem_check.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <system_error>

#include "propagator/run/checked.h"

namespace propagator::serve {
namespace {

Refused too_long() {
  return {413, fmt::format("expected a problem of at most {} bytes",
                           ProblemCheck::kMostBytes)};
}

Response response_to_problem(const std::string& text) {
  try {
    const auto checked = run::checked_problem(text);
    const nlohmann::json body{{"good", true},
                              {"found", checked.found},
                              {"warnings", checked.warnings},
                              {"parameters", checked.parameters}};
    return {.body = body.dump(-1, ' ', false,
                              nlohmann::json::error_handler_t::replace)};
  } catch (const std::exception& error) {
    return response_to(error);
  }
}

}  // namespace

ProblemCheck::~ProblemCheck() {
  if (thread_.joinable()) thread_.join();
}

void ProblemCheck::expect_short(const RequestHead& head) {
  const auto length = head.field("Content-Length").value_or("0");
  size_t bytes = 0;
  std::from_chars(length.data(), length.data() + length.size(), bytes);
  if (bytes > kMostBytes) throw too_long();
}

void ProblemCheck::submit(std::string text, Handler::Reply reply) {
  if (text.size() > kMostBytes) throw too_long();
  if (busy_.exchange(true)) {
    throw Refused(503, "another problem is being checked", "",
                  {{"Retry-After", "1"}});
  }
  if (thread_.joinable()) thread_.join();
  const auto work = [this, text = std::move(text), reply = std::move(reply)] {
    auto response = response_to_problem(text);
    busy_ = false;
    reply(std::move(response));
  };
  try {
    thread_ = std::thread(work);
  } catch (const std::system_error&) {
    busy_ = false;
    throw;
  }
}

}  // namespace propagator::serve
