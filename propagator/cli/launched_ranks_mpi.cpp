#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <numeric>

#include "propagator/cli/launched_count.h"
#include "propagator/cli/launched_ranks.h"
#include "propagator/core/error.h"

namespace propagator::cli {
namespace {

// MPI counts in ints: what is longer goes in pieces.
constexpr int64_t kLongest = int64_t{1} << 30;

// Calls `transfer` with each piece of the tensor's bytes.
template <class Transfer>
void in_pieces(const torch::Tensor& values, Transfer&& transfer) {
  auto* bytes = static_cast<char*>(values.data_ptr());
  const auto size = static_cast<int64_t>(values.nbytes());
  for (int64_t begin = 0; begin < size; begin += kLongest) {
    transfer(bytes + begin, static_cast<int>(std::min(kLongest, size - begin)));
  }
}

// An error of MPI itself ends all ranks, which is its default.
class MpiRanks : public Ranks {
 public:
  MpiRanks() {
    int level = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm machine = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_,
                        MPI_INFO_NULL, &machine);
    MPI_Comm_size(machine, &on_this_machine_);
    MPI_Comm_free(&machine);
  }
  ~MpiRanks() override { MPI_Finalize(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int on_this_machine() const override { return on_this_machine_; }
  void abort(int status) override {
    MPI_Abort(MPI_COMM_WORLD, status);
    std::_Exit(status);
  }

 protected:
  void do_send(const torch::Tensor& values, int to) override {
    in_pieces(values, [&](char* bytes, int count) {
      MPI_Send(bytes, count, MPI_BYTE, to, 0, MPI_COMM_WORLD);
    });
  }
  void do_receive(torch::Tensor values, int from) override {
    in_pieces(values, [&](char* bytes, int count) {
      MPI_Recv(bytes, count, MPI_BYTE, from, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
    });
  }
  void do_broadcast(torch::Tensor values, int from) override {
    in_pieces(values, [&](char* bytes, int count) {
      MPI_Bcast(bytes, count, MPI_BYTE, from, MPI_COMM_WORLD);
    });
  }

  std::vector<std::string> do_gather(const std::string& mine) override {
    const auto count = static_cast<size_t>(size_);
    const int length = static_cast<int>(mine.size());
    std::vector<int> lengths(count), begins(count);
    MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT,
                  MPI_COMM_WORLD);
    std::exclusive_scan(lengths.begin(), lengths.end(), begins.begin(), 0);
    std::string all(static_cast<size_t>(begins.back() + lengths.back()), ' ');
    MPI_Allgatherv(mine.data(), length, MPI_CHAR, all.data(), lengths.data(),
                   begins.data(), MPI_CHAR, MPI_COMM_WORLD);
    std::vector<std::string> texts;
    for (size_t n = 0; n < count; ++n) {
      texts.push_back(all.substr(static_cast<size_t>(begins[n]),
                                 static_cast<size_t>(lengths[n])));
    }
    return texts;
  }

 private:
  int rank_ = 0, size_ = 1, on_this_machine_ = 1;
};

}  // namespace

bool has_mpi() { return true; }

std::unique_ptr<Ranks> launched_ranks() {
  const int count = launched_count();
  if (count <= 1) return nullptr;
  auto ranks = std::make_unique<MpiRanks>();
  if (ranks->size() == count) return ranks;
  throw UsageError(
      fmt::format("{} processes were started, but MPI knows of {}", count,
                  ranks->size()),
      "start them with the mpirun of the MPI that this program was built with, "
      "or with srun --mpi=pmix");
}

}  // namespace propagator::cli
