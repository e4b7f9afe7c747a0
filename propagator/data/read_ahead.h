#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

namespace propagator::data {

// Results that a thread computes before they are asked for. `expect` names one
// by its key, `take` has it, from the thread where it was expected and else
// computed at once; an error of the computation is thrown by `take`. What was
// expected and not taken is dropped, the oldest first, so that no more than
// `most` are held.
template <class Key, class Value>
class ReadAhead {
 public:
  using Compute = std::function<Value(const Key&)>;

  ReadAhead(Compute compute, size_t most)
      : compute_(std::move(compute)), most_(most) {}
  ~ReadAhead() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  void expect(Key key) {
    {
      const std::lock_guard lock(mutex_);
      for (const auto& item : items_) {
        if (item->key == key) return;
      }
      items_.push_back(std::make_shared<Item>(std::move(key)));
      while (items_.size() > most_) items_.pop_front();
      if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    }
    changed_.notify_all();
  }

  Value take(const Key& key) {
    std::shared_ptr<Item> item;
    {
      const std::lock_guard lock(mutex_);
      for (auto at = items_.begin(); at != items_.end(); ++at) {
        if ((*at)->key != key) continue;
        // What nobody has begun is done here, not after what others expect.
        if ((*at)->begun) item = *at;
        items_.erase(at);
        break;
      }
    }
    if (!item) return compute_(key);
    ++ahead_;
    return item->value.get_future().get();
  }

  // How many came from the thread.
  int64_t ahead() const { return ahead_; }

 private:
  struct Item {
    explicit Item(Key its_key) : key(std::move(its_key)) {}
    Key key;
    std::promise<Value> value;
    bool begun = false;
  };

  void work() {
    while (true) {
      std::shared_ptr<Item> next;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stopping_ || (next = first()); });
        if (stopping_) return;
        next->begun = true;
      }
      try {
        next->value.set_value(compute_(next->key));
      } catch (...) {
        next->value.set_exception(std::current_exception());
      }
    }
  }

  std::shared_ptr<Item> first() const {
    for (const auto& item : items_) {
      if (!item->begun) return item;
    }
    return nullptr;
  }

  Compute compute_;
  size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Item>> items_;
  std::thread thread_;
  bool stopping_ = false;
  int64_t ahead_ = 0;
};

}  // namespace propagator::data
