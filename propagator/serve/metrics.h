#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace propagator::serve {

// What the server has done so far, for Prometheus. From several threads.
class Metrics {
 public:
  void connection_opened();
  void connection_closed();
  void responded(int status);
  // A request to a model was answered so long after its last byte had come.
  void inferred(const std::string& model, double seconds);
  // So many requests were computed together.
  void computed(const std::string& model, int64_t requests, double seconds);
  void set_waiting(int64_t requests);

  int64_t responses() const;
  // The text that Prometheus reads.
  std::string text() const;

 private:
  // Upper bounds in s; the last bucket has none.
  static constexpr std::array kBounds{0.0005, 0.001, 0.0025, 0.005, 0.01,
                                      0.025,  0.05,  0.1,    0.25,  0.5,
                                      1.0,    2.5,   5.0,    10.0};
  struct Model {
    std::array<int64_t, kBounds.size() + 1> buckets{};
    double seconds = 0;
    int64_t batches = 0, requests_in_batches = 0;
    double compute_seconds = 0;
  };
  void write_responses(std::string& text) const;
  void write_latencies(std::string& text) const;
  void write_batches(std::string& text) const;

  mutable std::mutex mutex_;
  std::map<std::string, Model> models_;
  std::map<int, int64_t> by_status_;
  int64_t open_ = 0, opened_ = 0, waiting_ = 0;
};

}  // namespace propagator::serve
