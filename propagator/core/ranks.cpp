#include "propagator/core/ranks.h"

#include <torch/utils.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "propagator/core/stopwatch.h"

namespace propagator {
namespace {

class OneRank : public Ranks {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int on_this_machine() const override { return 1; }
  void abort(int status) override { std::exit(status); }

 protected:
  void do_send(const torch::Tensor&, int to) override { expect_nobody(to); }
  void do_receive(torch::Tensor, int from) override { expect_nobody(from); }
  void do_broadcast(torch::Tensor, int) override {}
  std::vector<std::string> do_gather(const std::string& mine) override {
    return {mine};
  }

 private:
  [[noreturn]] static void expect_nobody(int other) {
    throw std::invalid_argument("[ranks] expected no other rank, got " +
                                std::to_string(other));
  }
};

thread_local Ranks* t_ranks = nullptr;

// Adds the time that it lives.
class Timed {
 public:
  explicit Timed(double& seconds) : seconds_(seconds) {}
  ~Timed() { seconds_ += clock_.seconds(); }

 private:
  double& seconds_;
  Stopwatch clock_;
};

}  // namespace

void Ranks::send(const torch::Tensor& values, int to) {
  const Timed timed(traffic_.seconds);
  do_send(values, to);
  traffic_.bytes += static_cast<int64_t>(values.nbytes());
}

void Ranks::receive(torch::Tensor values, int from) {
  const Timed timed(traffic_.seconds);
  do_receive(values, from);
  traffic_.bytes += static_cast<int64_t>(values.nbytes());
}

void Ranks::broadcast(torch::Tensor values, int from) {
  const Timed timed(traffic_.seconds);
  do_broadcast(values, from);
  traffic_.bytes += static_cast<int64_t>(values.nbytes());
}

std::vector<std::string> Ranks::gather(const std::string& mine) {
  const Timed timed(traffic_.seconds);
  return do_gather(mine);
}

Ranks& one_rank() {
  static thread_local OneRank alone;
  return alone;
}

Ranks& ranks() { return t_ranks != nullptr ? *t_ranks : one_rank(); }

RanksScope::RanksScope(Ranks& ranks) : outer_(t_ranks) { t_ranks = &ranks; }

RanksScope::~RanksScope() { t_ranks = outer_; }

void exchange_rows(const torch::Tensor& all, int64_t block) {
  const int64_t rows = all.size(0);
  const int64_t blocks = (rows + block - 1) / block;
  for (int rank = 0; rank < ranks().size(); ++rank) {
    const auto share = share_of(blocks, rank, ranks().size());
    const int64_t begin = share.begin * block;
    const int64_t end = std::min(share.end * block, rows);
    if (begin < end) ranks().broadcast(all.narrow(0, begin, end - begin), rank);
  }
}

}  // namespace propagator
