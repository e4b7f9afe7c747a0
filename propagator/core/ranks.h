#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace propagator {

// The processes that do one piece of work together, numbered 0 … size - 1. All
// of them come to each call in the same order, but for `send`, `receive` and
// `abort`. The library knows this interface alone; a front end derives from it
// what its launcher has, such as MPI, and hands it in with a RanksScope.
//
// Tensors are on the CPU and contiguous, and those that receive have the type
// and shape of those that are sent.
class Ranks {
 public:
  virtual ~Ranks() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int on_this_machine() const = 0;  // how many of them

  // The first writes files and speaks for all.
  bool is_first() const { return rank() == 0; }
  bool are_several() const { return size() > 1; }

  void send(const torch::Tensor& values, int to);
  void receive(torch::Tensor values, int from);
  // From one to all.
  void broadcast(torch::Tensor values, int from);
  // What all say, by rank; each gets it once all have said it.
  std::vector<std::string> gather(const std::string& mine);

  // Of this rank so far: the bytes of tensors that it has sent and received,
  // and the time that calls took, waiting for others included.
  struct Traffic {
    int64_t bytes = 0;
    double seconds = 0;
  };
  const Traffic& traffic() const { return traffic_; }

  // Ends all of them, whatever they do, with that exit code.
  [[noreturn]] virtual void abort(int status) = 0;

 protected:
  virtual void do_send(const torch::Tensor& values, int to) = 0;
  virtual void do_receive(torch::Tensor values, int from) = 0;
  virtual void do_broadcast(torch::Tensor values, int from) = 0;
  virtual std::vector<std::string> do_gather(const std::string& mine) = 0;

 private:
  Traffic traffic_;
};

// The ranks of the work that this thread does now: one alone, if nobody has set
// others.
Ranks& ranks();
Ranks& one_rank();

// Makes ranks those of this thread while the scope lives.
class RanksScope {
 public:
  explicit RanksScope(Ranks& ranks);
  ~RanksScope();
  RanksScope(const RanksScope&) = delete;
  RanksScope& operator=(const RanksScope&) = delete;

 private:
  Ranks* outer_;
};

// Numbers begin … end - 1.
struct Share {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
  bool has(int64_t n) const { return begin <= n && n < end; }
};

// Part `part` of `parts` of 0 … count - 1: they follow each other, and their
// sizes differ by one at most.
inline Share share_of(int64_t count, int64_t part, int64_t parts) {
  return {count * part / parts, count * (part + 1) / parts};
}
// That of this thread's rank.
inline Share own_share(int64_t count) {
  return share_of(count, ranks().rank(), ranks().size());
}

// Returns when all ranks have come here.
inline void wait_for_all_ranks() { ranks().gather(""); }

// Gives all ranks all rows of a tensor in which each has filled its own_share
// of blocks of so many rows, the last one shorter.
void exchange_rows(const torch::Tensor& all, int64_t block);

}  // namespace propagator
