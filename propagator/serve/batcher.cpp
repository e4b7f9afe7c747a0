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
  if (options_.batch > 1 && job.model->cases_to_join(job.inputs)) {
    layout = ServedModel::layout(job.inputs);
  }
  {
    const std::lock_guard lock(mutex_);
    const auto waiting = std::ssize(queue_);
    if (waiting >= options_.queue) {
      const double wait =
          std::ceil(static_cast<double>(waiting) * seconds_each_);
      throw Refused(
          503, fmt::format("{} requests are waiting already", waiting), "",
          {{"Retry-After", fmt::format("{:.0f}", std::max(wait, 1.0))}});
    }
    queue_.push_back({std::move(job), std::move(layout), {}});
    metrics_.set_waiting(waiting + 1);
  }
  changed_.notify_one();
}

void Batcher::work() {
  const SilentWarnings silent;
  for (auto together = take(); !together.empty(); together = take()) {
    const Stopwatch clock;
    const auto requests = std::ssize(together);
    const auto name = together.front().job.model->name();
    compute(together);
    together.clear();
    metrics_.computed(name, requests, clock.seconds());
    const std::lock_guard lock(mutex_);
    const double each = clock.seconds() / static_cast<double>(requests);
    seconds_each_ += 0.1 * (each - seconds_each_);
  }
}

std::vector<Batcher::Waiting> Batcher::take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
  std::vector<Waiting> together;
  if (queue_.empty()) return together;
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

void Batcher::compute(std::vector<Waiting>& together) {
  std::erase_if(together, [this](Waiting& one) {
    if (one.clock.seconds() < options_.patience) return false;
    one.job.done({}, std::make_exception_ptr(
                         Refused(503, "the request has waited too long", "",
                                 {{"Retry-After", "1"}})));
    return true;
  });
  if (together.empty()) return;
  const auto& run = together.front().job.model->run();
  const RuntimeScope scope(run.runtime(), run.experiment().run().threads);
  if (together.size() > 1) return compute_joined(together);
  compute_alone(together.front().job);
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
