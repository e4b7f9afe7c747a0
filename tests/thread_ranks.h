#pragma once

#include <torch/utils.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "propagator/core/ranks.h"

namespace propagator::testing {

// What ranks that are threads of one process share.
class ThreadsTogether {
 public:
  explicit ThreadsTogether(int size) : said_(static_cast<size_t>(size)) {}

  int size() const { return static_cast<int>(said_.size()); }

  void send(int from, int to, const torch::Tensor& values) {
    const std::lock_guard lock(mutex_);
    sent_[{from, to}].push_back(values.clone());
    changed_.notify_all();
  }
  torch::Tensor receive(int from, int to) {
    std::unique_lock lock(mutex_);
    auto& waiting = sent_[{from, to}];
    wait(lock, [&] { return !waiting.empty(); });
    const auto values = waiting.front();
    waiting.pop_front();
    return values;
  }
  std::vector<std::string> gather(int rank, const std::string& mine) {
    std::unique_lock lock(mutex_);
    wait(lock, [&] { return leaving_ == 0; });
    said_[static_cast<size_t>(rank)] = mine;
    if (++arrived_ == size()) {
      arrived_ = 0;
      leaving_ = size();
      changed_.notify_all();
    } else {
      wait(lock, [&] { return leaving_ > 0; });
    }
    const auto all = said_;
    if (--leaving_ == 0) changed_.notify_all();
    return all;
  }
  void fail() {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    changed_.notify_all();
  }

 private:
  template <class Condition>
  void wait(std::unique_lock<std::mutex>& lock, Condition&& condition) {
    changed_.wait(lock, [&] { return failed_ || condition(); });
    if (failed_) throw std::runtime_error("another rank has failed");
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int, int>, std::deque<torch::Tensor>> sent_;
  std::vector<std::string> said_;
  int arrived_ = 0, leaving_ = 0;
  bool failed_ = false;
};

class ThreadRanks : public Ranks {
 public:
  ThreadRanks(ThreadsTogether& together, int rank)
      : together_(together), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return together_.size(); }
  int on_this_machine() const override { return size(); }
  void abort(int status) override {
    together_.fail();
    throw std::runtime_error("aborted with " + std::to_string(status));
  }

 protected:
  void do_send(const torch::Tensor& values, int to) override {
    together_.send(rank_, to, values);
  }
  void do_receive(torch::Tensor values, int from) override {
    values.copy_(together_.receive(from, rank_));
  }
  void do_broadcast(torch::Tensor values, int from) override {
    if (rank() != from) return do_receive(values, from);
    for (int to = 0; to < size(); ++to) {
      if (to != from) do_send(values, to);
    }
  }
  std::vector<std::string> do_gather(const std::string& mine) override {
    return together_.gather(rank_, mine);
  }

 private:
  ThreadsTogether& together_;
  int rank_;
};

// Runs `work` on so many ranks at once, each a thread, and gives what it
// returns on each. An exception ends all; the first rank's, or another one's,
// is thrown.
template <class Result>
std::vector<Result> on_ranks(int count, const std::function<Result()>& work) {
  ThreadsTogether together(count);
  std::vector<Result> results(static_cast<size_t>(count));
  std::exception_ptr error;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadRanks mine(together, rank);
      const RanksScope scope(mine);
      try {
        results[static_cast<size_t>(rank)] = work();
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        together.fail();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
  return results;
}

}  // namespace propagator::testing
