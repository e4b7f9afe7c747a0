#include "propagator/serve/batcher.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "propagator/core/device.h"
#include "propagator/core/torch_compat.h"

namespace propagator::serve {
namespace {

// Tells the client what `compute` gives, or why it gives nothing.
void finish(const Batcher::Job& job,
            const std::function<NamedTensors()>& compute) {
  Answer answer;
  std::exception_ptr error;
  try {
    answer.outputs = compute();
    if (job.guard) answer.guard = job.model->guard(job.inputs, answer.outputs);
  } catch (const std::exception&) {
    error = std::current_exception();
  }
  job.done(std::move(answer), error);
}

void compute_alone(const Batcher::Job& job) {
  finish(job, [&] { return job.model->apply(job.inputs); });
}

void send_away(const Batcher::Job& job) {
  job.done({}, std::make_exception_ptr(
                   Refused(503, "the request has waited too long", "",
                           {{"Retry-After", "1"}})));
}

// Large requests gain nothing by it, and would take memory together.
bool may_join(const Batcher::Job& job) {
  constexpr size_t kLarge = 1 << 20;  // bytes
  size_t bytes = 0;
  for (const auto& [name, values] : job.inputs) bytes += values.nbytes();
  return bytes < kLarge && job.model->cases_to_join(job.inputs).has_value();
}

NamedTensors joined(const std::vector<const NamedTensors*>& parts) {
  NamedTensors all;
  for (const auto& [name, values] : *parts.front()) {
    std::vector<torch::Tensor> same;
    for (const auto* part : parts) same.push_back(part->at(name));
    all[name] = torch::cat(same);
  }
  return all;
}

NamedTensors part_of(const NamedTensors& answers, int64_t first,
                     int64_t cases) {
  NamedTensors part;
  for (const auto& [name, values] : answers) {
    part[name] = values.narrow(0, first, cases);
  }
  return part;
}

}  // namespace

Batcher::Batcher(const Options& options, Metrics& metrics)
    : options_(options), metrics_(metrics), thread_([this] { work(); }) {}

Batcher::~Batcher() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Batcher::submit(Job job) {
  std::string layout;
  if (options_.batch > 1 && may_join(job)) {
    layout = ServedModel::layout(job.inputs);
  }
  Waiting one{std::move(job), std::move(layout), {}};
  if (!begins(one)) return changed_.notify_one();
  std::vector<Waiting> alone;
  alone.push_back(std::move(one));
  compute(std::move(alone));
}

bool Batcher::begins(Waiting& one) {
  const std::lock_guard lock(mutex_);
  const auto waiting = std::ssize(queue_);
  if (!busy_ && waiting == 0 && one.job.model->threads() == 1) {
    busy_ = true;
    return true;
  }
  if (waiting >= options_.queue) {
    const double wait = std::ceil(static_cast<double>(waiting) * seconds_each_);
    throw Refused(
        503, fmt::format("{} requests are waiting already", waiting), "",
        {{"Retry-After", fmt::format("{:.0f}", std::max(wait, 1.0))}});
  }
  queue_.push_back(std::move(one));
  metrics_.set_waiting(waiting + 1);
  return false;
}

void Batcher::work() {
  for (auto together = take(); !together.empty(); together = take()) {
    compute(std::move(together));
  }
}

std::vector<Batcher::Waiting> Batcher::take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock,
                [this] { return !busy_ && (ending_ || !queue_.empty()); });
  std::vector<Waiting> together;
  if (queue_.empty()) return together;
  busy_ = true;
  together.push_back(std::move(queue_.front()));
  queue_.pop_front();
  const auto* model = together.front().job.model.get();
  const auto layout = together.front().layout;
  for (auto next = queue_.begin(); next != queue_.end() && !layout.empty() &&
                                   std::ssize(together) < options_.batch;) {
    if (next->job.model.get() != model || next->layout != layout) {
      ++next;
      continue;
    }
    together.push_back(std::move(*next));
    next = queue_.erase(next);
  }
  metrics_.set_waiting(std::ssize(queue_));
  return together;
}

void Batcher::compute(std::vector<Waiting> together) {
  const SilentWarnings silent;
  const Stopwatch clock;
  const auto model = together.front().job.model;
  const auto requests = std::ssize(together);
  std::erase_if(together, [this](const Waiting& one) {
    const bool late = one.clock.seconds() >= options_.patience;
    if (late) send_away(one.job);
    return late;
  });
  {
    const RuntimeScope scope(model->run().runtime(), model->threads());
    if (together.size() == 1) compute_alone(together.front().job);
    if (together.size() > 1) compute_joined(together);
  }
  metrics_.computed(model->name(), requests, clock.seconds());
  const double each = clock.seconds() / static_cast<double>(requests);
  bool is_awaited = false;
  {
    const std::lock_guard lock(mutex_);
    seconds_each_ += 0.1 * (each - seconds_each_);
    busy_ = false;
    is_awaited = ending_ || !queue_.empty();
  }
  // To wake the thread for nothing would cost each small request some of it.
  if (is_awaited) changed_.notify_one();
}

void Batcher::compute_joined(const std::vector<Waiting>& together) {
  const auto& model = *together.front().job.model;
  std::vector<const NamedTensors*> parts;
  std::vector<int64_t> cases;
  for (const auto& one : together) {
    parts.push_back(&one.job.inputs);
    cases.push_back(*model.cases_to_join(one.job.inputs));
  }
  NamedTensors answers;
  try {
    answers = model.apply(joined(parts));
  } catch (const std::exception&) {
    for (const auto& one : together) compute_alone(one.job);
    return;
  }
  int64_t first = 0;
  for (size_t n = 0; n < together.size(); ++n) {
    finish(together[n].job, [&] { return part_of(answers, first, cases[n]); });
    first += cases[n];
  }
}

}  // namespace propagator::serve
