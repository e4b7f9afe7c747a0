#include "propagator/serve/watch.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>

#include "propagator/core/plain_text.h"
#include "propagator/serve/page.h"

namespace propagator::serve {
namespace {

// Of one answer; a browser asks again for the rest.
constexpr std::streamsize kMostBytes = 1 << 20;
constexpr std::string_view kMetrics = "/metrics.jsonl";
constexpr std::string_view kFrom = "?from=";

}  // namespace

WatchHandler::WatchHandler(std::filesystem::path folder)
    : folder_(folder.has_filename() ? std::move(folder) : folder.parent_path()),
      access_(AccessOptions()) {}

void WatchHandler::admit(const RequestHead& head) const {
  access_.check(head, /*needs_key=*/false);
  if (head.method == "GET") return;
  throw Refused(405,
                fmt::format("expected GET, got {}", plain_text(head.method)),
                "", {{"Allow", "GET"}});
}

void WatchHandler::answer(Request request, Reply reply) {
  try {
    reply(response_to_path(request.head.target));
  } catch (const std::exception& error) {
    reply(response_to(error));
  }
}

void WatchHandler::note(const Observer::Step& step) {
  const std::lock_guard lock(mutex_);
  step_ = {{"title", step.title},
           {"done", step.done},
           {"total", step.total},
           {"rate", step.rate},
           {"seconds", step.seconds}};
}

void WatchHandler::note(const std::string& line) {
  const std::lock_guard lock(mutex_);
  line_ = line;
}

Response WatchHandler::response_to_path(const std::string& target) const {
  if (target == "/") return watch_page();
  if (target == "/progress") return progress();
  if (target.starts_with(kMetrics)) {
    return lines_from(target.substr(kMetrics.size()));
  }
  throw Refused(404, fmt::format("there is nothing at {}", plain_text(target)));
}

Response WatchHandler::progress() const {
  const std::lock_guard lock(mutex_);
  const nlohmann::json body{
      {"name", folder_.filename().string()}, {"step", step_}, {"line", line_}};
  return {.body = body.dump(-1, ' ', false,
                            nlohmann::json::error_handler_t::replace)};
}

Response WatchHandler::lines_from(const std::string& query) const {
  int64_t from = 0;
  if (query.starts_with(kFrom)) {
    std::from_chars(query.data() + kFrom.size(), query.data() + query.size(),
                    from);
  }
  std::ifstream file(folder_ / "metrics.jsonl", std::ios::binary);
  file.seekg(0, std::ios::end);
  const auto size = file ? static_cast<int64_t>(file.tellg()) : 0;
  if (from < 0 || from > size) {
    throw Refused(416, fmt::format("expected a byte of {}, got {}", size, from),
                  "the training began anew: read from 0");
  }
  std::string lines(
      static_cast<size_t>(std::min<int64_t>(size - from, kMostBytes)), '\0');
  file.seekg(from);
  file.read(lines.data(), std::ssize(lines));
  lines.resize(static_cast<size_t>(std::max<int64_t>(file.gcount(), 0)));
  lines.resize(lines.rfind('\n') + 1);  // 0 where there is none
  return {.content_type = "application/jsonl", .body = std::move(lines)};
}

Watch::Watch(std::filesystem::path folder, Observer& outer, uint16_t port)
    : outer_(outer),
      handler_(std::move(folder)),
      server_("127.0.0.1", port, {}, handler_, metrics_) {}

std::string Watch::url() const {
  return fmt::format("http://127.0.0.1:{}", server_.port());
}

void Watch::log(Level level, const std::string& line) {
  handler_.note(line);
  outer_.log(level, line);
}

void Watch::progress(const Step& step) {
  handler_.note(step);
  outer_.progress(step);
}

}  // namespace propagator::serve
