#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "propagator/core/error.h"

namespace propagator::serve {

using Fields = std::vector<std::pair<std::string, std::string>>;

// All of a request but its body.
struct RequestHead {
  std::string method = {};         // "GET"
  std::string target = {};         // "/v2/models/quick/infer"
  Fields fields = {};              // as they came
  std::string local_address = {};  // that the client has reached: "127.0.0.1"

  // The value of a field, whatever the case of its name. Refused if there are
  // two of that name.
  std::optional<std::string> field(std::string_view name) const;
};

struct Request {
  RequestHead head;
  std::string body;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  Fields fields = {};
  std::string body = {};
};

// Why a request gets no answer, and the status that says so.
class Refused : public UsageError {
 public:
  Refused(int status, const std::string& what, std::string hint = "",
          Fields fields = {})
      : UsageError(what, std::move(hint)),
        status_(status),
        fields_(std::move(fields)) {}
  int status() const { return status_; }
  const Fields& fields() const { return fields_; }

 private:
  int status_;
  Fields fields_;
};

// {"error": "…"} with the status that belongs to the exception: 400 for the
// client's mistakes, 422 for an answer that is not finite, 500 for ours.
Response response_to(const std::exception& error);

// Answers requests; called from several threads.
class Handler {
 public:
  virtual ~Handler() = default;

  using Reply = std::function<void(Response)>;
  // Throws what a request is refused with before its body is read.
  virtual void admit(const RequestHead& head) const = 0;
  // Calls `reply` once: now, or later from any thread. Nothing is thrown.
  virtual void answer(Request request, Reply reply) = 0;
};

}  // namespace propagator::serve
