#include "propagator/serve/metrics.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

namespace propagator::serve {
namespace {

// What this process holds in memory; 0 where the system does not tell.
int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

void write_head(std::string& text, const char* name, const char* type,
                const char* help) {
  fmt::format_to(std::back_inserter(text), "# HELP {0} {2}\n# TYPE {0} {1}\n",
                 name, type, help);
}

void write_single(std::string& text, const char* name, const char* type,
                  const char* help, int64_t value) {
  write_head(text, name, type, help);
  fmt::format_to(std::back_inserter(text), "{} {}\n", name, value);
}

}  // namespace

void Metrics::connection_opened() {
  const std::lock_guard lock(mutex_);
  ++open_;
  ++opened_;
}

void Metrics::connection_closed() {
  const std::lock_guard lock(mutex_);
  --open_;
}

void Metrics::responded(int status) {
  const std::lock_guard lock(mutex_);
  ++by_status_[status];
}

void Metrics::inferred(const std::string& model, double seconds) {
  const std::lock_guard lock(mutex_);
  auto& one = models_[model];
  one.seconds += seconds;
  const auto bucket = std::ranges::lower_bound(kBounds, seconds);
  ++one.buckets[static_cast<size_t>(bucket - kBounds.begin())];
}

void Metrics::computed(const std::string& model, int64_t requests,
                       double seconds) {
  const std::lock_guard lock(mutex_);
  auto& one = models_[model];
  ++one.batches;
  one.requests_in_batches += requests;
  one.compute_seconds += seconds;
}

void Metrics::set_waiting(int64_t requests) {
  const std::lock_guard lock(mutex_);
  waiting_ = requests;
}

int64_t Metrics::responses() const {
  const std::lock_guard lock(mutex_);
  int64_t total = 0;
  for (const auto& [status, count] : by_status_) total += count;
  return total;
}

std::string Metrics::text() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  write_responses(text);
  write_latencies(text);
  write_batches(text);
  write_single(text, "propagator_waiting_requests", "gauge",
               "Requests that wait to be computed.", waiting_);
  write_single(text, "propagator_connections", "gauge", "Open connections.",
               open_);
  write_single(text, "propagator_connections_total", "counter",
               "Connections that were opened.", opened_);
  write_single(text, "process_resident_memory_bytes", "gauge",
               "Memory that the process holds.", resident_bytes());
  return text;
}

void Metrics::write_responses(std::string& text) const {
  write_head(text, "propagator_responses_total", "counter",
             "Responses, by status.");
  for (const auto& [status, count] : by_status_) {
    fmt::format_to(std::back_inserter(text),
                   "propagator_responses_total{{status=\"{}\"}} {}\n", status,
                   count);
  }
}

void Metrics::write_latencies(std::string& text) const {
  write_head(text, "propagator_request_seconds", "histogram",
             "From the last byte of a request to its response.");
  for (const auto& [name, model] : models_) {
    int64_t count = 0;
    for (size_t n = 0; n < model.buckets.size(); ++n) {
      count += model.buckets[n];
      const auto bound =
          n < kBounds.size() ? fmt::format("{}", kBounds[n]) : "+Inf";
      fmt::format_to(
          std::back_inserter(text),
          "propagator_request_seconds_bucket{{model=\"{}\",le=\"{}\"}} {}\n",
          name, bound, count);
    }
    fmt::format_to(std::back_inserter(text),
                   "propagator_request_seconds_sum{{model=\"{0}\"}} {1}\n"
                   "propagator_request_seconds_count{{model=\"{0}\"}} {2}\n",
                   name, model.seconds, count);
  }
}

void Metrics::write_batches(std::string& text) const {
  const auto write = [&](const char* name, const char* help, auto value_of) {
    write_head(text, name, "counter", help);
    for (const auto& [model_name, model] : models_) {
      if (model.batches == 0) continue;
      fmt::format_to(std::back_inserter(text), "{}{{model=\"{}\"}} {}\n", name,
                     model_name, value_of(model));
    }
  };
  write("propagator_batches_total", "Computations of a model.",
        [](const Model& model) { return model.batches; });
  write("propagator_batched_requests_total",
        "Requests that were computed in them.",
        [](const Model& model) { return model.requests_in_batches; });
  write("propagator_compute_seconds_total", "Time that they took.",
        [](const Model& model) { return model.compute_seconds; });
}

}  // namespace propagator::serve
