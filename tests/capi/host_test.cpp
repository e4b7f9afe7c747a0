#include <fenv.h>
#include <omp.h>
#include <signal.h>

#include <atomic>
#include <thread>

#include "capi/open_runs.h"

namespace propagator::capi {
namespace {

using testing::apply;
using testing::array;
using testing::OpenHandle;
using torch::Tensor;

// All that a call may disturb in the thread that makes it, and in OpenMP's.
struct HostState {
  int threads = omp_get_max_threads(), dynamic = omp_get_dynamic();
  int levels = omp_get_max_active_levels();
  int flags = fetestexcept(FE_ALL_EXCEPT), rounding = fegetround();
  std::vector<int> traps = std::vector<int>(static_cast<size_t>(threads));
  std::vector<void (*)(int)> handlers;

  HostState() {
#pragma omp parallel
    traps[static_cast<size_t>(omp_get_thread_num())] = fegetexcept();
    for (int number = 1; number < 32; ++number) {
      struct sigaction action {};
      sigaction(number, nullptr, &action);
      handlers.push_back(action.sa_handler);
    }
  }
  bool operator==(const HostState&) const = default;
};

class CapiHost : public ::testing::Test {
 protected:
  static constexpr int kTraps = FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW;

  // Whether the call succeeds and leaves the host as it was; the answer is in
  // `fields`. It has no arithmetic of its own: that could be trapped.
  void call(const pg_run* run) const {
    const HostState before;
    EXPECT_EQ(apply(run, {array("fields", first), array("alpha", alpha)},
                    {array("fields", fields)}),
              PG_OK)
        << pg_last_error();
    EXPECT_EQ(HostState(), before);
  }

  const Tensor first = torch::linspace(0, 1, 6 * 3 * 6 * 7).view({6, 3, 6, 7});
  const Tensor alpha = torch::full({6}, 0.05);
  const Tensor fields = torch::full({6, 8, 6, 7}, NAN);
};

TEST_F(CapiHost, IsAsItWasAfterEachCall) {
  const auto path = (testing::runs_folder() / "plate").string();
  struct sigaction mine {
  }, old{};
  mine.sa_handler = [](int) {};
  sigaction(SIGTERM, &mine, &old);
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  // A new thread: the first call of libtorch in one sets a number of threads.
  std::thread([&] {
    omp_set_num_threads(3);
    feraiseexcept(FE_UNDERFLOW | FE_DIVBYZERO);
    fesetround(FE_UPWARD);
    feenableexcept(FE_INVALID);
    const HostState before;
    pg_options options = PG_OPTIONS;
    options.threads = 2;
    pg_run* run = nullptr;
    EXPECT_EQ(pg_open(path.c_str(), &options, &run), PG_OK);
    EXPECT_EQ(HostState(), before);
    call(run);
    const pg_port* ports = nullptr;
    size_t count = 0;
    EXPECT_EQ(pg_inputs(run, &ports, &count), PG_OK);
    EXPECT_EQ(pg_apply(run, nullptr, 0, nullptr, 0), PG_USAGE);
    EXPECT_EQ(HostState(), before);
    // Closed by another thread with another number.
    std::thread([&] {
      omp_set_num_threads(5);
      EXPECT_EQ(pg_close(run), PG_OK);
      EXPECT_EQ(omp_get_max_threads(), 5);
    }).join();
    EXPECT_EQ(HostState(), before);
  }).join();
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  sigaction(SIGTERM, &old, nullptr);
}

// Inexact results alone would end the process here, were traps not put off.
TEST_F(CapiHost, ItsTrapsAndRoundingDoNotChangeTheAnswer) {
  const OpenHandle handle("plate");
  std::thread([&] {
    omp_set_num_threads(2);
    call(handle.run);
    const auto expected = fields.clone();
    for (const int rounding : {FE_TONEAREST, FE_UPWARD, FE_TOWARDZERO}) {
#pragma omp parallel
      {
        fesetround(rounding);
        feenableexcept(kTraps | FE_UNDERFLOW | FE_INEXACT);
      }
      call(handle.run);
#pragma omp parallel
      {
        fedisableexcept(FE_ALL_EXCEPT);
        fesetround(FE_TONEAREST);
      }
      EXPECT_TRUE(torch::equal(fields, expected));
      fields.fill_(NAN);
    }
  }).join();
}

TEST_F(CapiHost, SeveralThreadsMayCallAtOnceAndOneMayClose) {
  const OpenHandle handle("plate", 1);
  pg_run* closed = nullptr;
  ASSERT_EQ(
      pg_open((testing::runs_folder() / "plate").c_str(), nullptr, &closed),
      PG_OK);
  call(handle.run);
  std::atomic<int> same = 0, refused = 0, wrong = 0;
  std::vector<std::thread> threads;
  for (int n = 0; n < 4; ++n) {
    threads.emplace_back([&, n] {
      for (int k = 0; k < 30; ++k) {
        const auto mine = torch::full({6, 8, 6, 7}, NAN);
        const auto status =
            apply(n % 2 == 0 ? handle.run : closed,
                  {array("fields", first), array("alpha", alpha)},
                  {array("fields", mine)});
        const std::string message = pg_last_error();
        if (status == PG_OK) {
          (torch::equal(mine, fields) ? same : wrong) += 1;
        } else if (status == PG_USAGE && n % 2 == 1 &&
                   message.find("not open") != std::string::npos) {
          refused += 1;
        } else {
          wrong += 1;
        }
        if (n == 1 && k == 10) {
          EXPECT_EQ(pg_close(closed), PG_OK);
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(same + refused, 120);
  EXPECT_GE(same, 60);
  EXPECT_GE(refused, 19);
}

TEST_F(CapiHost, ErrorsAreOfTheThreadThatMadeThem) {
  EXPECT_EQ(pg_open(nullptr, nullptr, nullptr), PG_USAGE);
  const std::string mine = pg_last_error();
  EXPECT_NE(mine, "");
  std::thread([] { EXPECT_STREQ(pg_last_error(), ""); }).join();
  EXPECT_EQ(pg_last_error(), mine);
  EXPECT_EQ(pg_close(nullptr), PG_OK);
  EXPECT_STREQ(pg_last_error(), "");
}

}  // namespace
}  // namespace propagator::capi
