#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <random>
#include <thread>

#include "comm/collective_check.h"
#include "comm/tcp/tcp_fixture.h"
#include "comm/world.h"

namespace trireme {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kFaults = 120;
constexpr int kTcpFaults = 12;
#else
constexpr int kFaults = 1000;
constexpr int kTcpFaults = 60;
#endif

// The wire says how the ranks of a test communicate.
enum class Wire { Threads, TcpInHost, TcpBetweenHosts };
constexpr Wire kWires[] = {Wire::Threads, Wire::TcpInHost, Wire::TcpBetweenHosts};

void run_over(Wire wire, int size, WorldOptions options,
              const std::function<void(World&)>& function) {
  if (wire == Wire::Threads) return run_ranks(size, options, function);
  options.nodes = wire == Wire::TcpInHost ? 0 : 1;
  run_tcp_ranks(size, options, function);
}

struct Outcome {
  std::vector<std::string> texts;  // [rank] what its wait threw; "" if nothing
  std::vector<double> after_s;     // [rank] seconds since the last rank made its call
  std::string first_cause;
};

// Runs `call` on every rank and collects how each ended. Late ranks start 5 ms later.
Outcome collect(int size, const WorldOptions& options, const std::function<void(World&)>& call,
                Wire wire = Wire::Threads) {
  Outcome outcome{std::vector<std::string>(size_t(size)), std::vector<double>(size_t(size)), ""};
  std::atomic<int64_t> last_call{0};
  try {
    run_over(wire, size, options, [&](World& world) {
      world.group().barrier();
      if (world.rank() == size - 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      const int64_t now_ns = steady_now_ns();
      int64_t last_ns = last_call;
      while (last_ns < now_ns && !last_call.compare_exchange_weak(last_ns, now_ns)) continue;
      try {
        call(world);
      } catch (const CommError& error) {
        outcome.texts[size_t(world.rank())] = error.what();
        outcome.after_s[size_t(world.rank())] = double(steady_now_ns() - last_call) * 1e-9;
        throw;
      }
    });
  } catch (const RankError& error) {
    outcome.first_cause = error.what();
  }
  return outcome;
}

TensorRef floats(std::vector<float>& x) { return {x.data(), DType::F32, Shape{int64_t(x.size())}}; }

struct Mismatch {
  const char* name;
  std::function<void(World&)> call;
  std::vector<const char*> words;  // words that every rank's report must contain
};

std::vector<Mismatch> mismatches(Algorithm algorithm) {
  const auto other = [](World& w) { return w.rank() == w.size() - 1; };
  return {
      {"count",
       [=](World& w) {
         std::vector<float> x(other(w) ? 5000 : 4000);
         w.group().all_reduce(floats(x), ReduceOp::Sum, algorithm);
       },
       {"5000 elements", "4000 elements"}},
      {"short count",
       [=](World& w) {
         std::vector<float> x(other(w) ? 3 : 2);
         w.group().all_reduce(floats(x), ReduceOp::Sum, algorithm);
       },
       {"3 elements", "2 elements"}},
      {"reduction",
       [=](World& w) {
         std::vector<float> x(100);
         w.group().all_reduce(floats(x), other(w) ? ReduceOp::Max : ReduceOp::Sum, algorithm);
       },
       {"all_reduce(max", "all_reduce(sum"}},
      {"dtype",
       [=](World& w) {
         std::vector<float> x(1000);
         TensorRef ref = floats(x);
         if (other(w)) ref.dtype = DType::I32;
         w.group().all_reduce(ref, ReduceOp::Sum, algorithm);
       },
       {"int32", "fp32"}},
      {"collective",
       [=](World& w) {
         std::vector<float> x(1000);
         if (other(w)) {
           w.group().barrier();
         } else {
           w.group().all_reduce(floats(x), ReduceOp::Sum, algorithm);
         }
       },
       {"barrier()", "all_reduce("}},
      {"root: both are sure to receive",
       [=](World& w) {
         std::vector<float> x(1000);
         w.group().broadcast(floats(x), other(w) ? 0 : w.size() - 1, Algorithm::Naive);
       },
       {"broadcast(root 0", "broadcast(root 1"}},
  };
}

TEST(NoHangs, MismatchedCallsAreNamedOnBothSidesWithin100Milliseconds) {
  for (Algorithm algorithm : {Algorithm::Shared, Algorithm::Ring, Algorithm::Doubling}) {
    for (const Mismatch& mismatch : mismatches(algorithm)) {
      SCOPED_TRACE(fmt::format("{} {}", name_of(algorithm), mismatch.name));
      double worst_s = 1;
      // Repeats, because other load may delay the ranks.
      for (int attempt = 0; attempt < 10 && worst_s > 0.1; ++attempt) {
        const Outcome outcome = collect(2, {.timeout_s = 20}, mismatch.call);
        worst_s = 0;
        for (int rank = 0; rank < 2; ++rank) {
          const std::string& text = outcome.texts[size_t(rank)];
          for (const char* word : mismatch.words) {
            ASSERT_NE(text.find(word), std::string::npos) << "rank " << rank << ": " << text;
          }
          ASSERT_NE(text.find("rank 0 is in"), std::string::npos) << text;
          ASSERT_NE(text.find("rank 1 is in"), std::string::npos) << text;
          ASSERT_NE(text.find("fault_test.cc:"), std::string::npos) << text;
          worst_s = std::max(worst_s, outcome.after_s[size_t(rank)]);
        }
      }
      EXPECT_LT(worst_s, 0.1);
    }
  }
}

TEST(NoHangs, MismatchedCallsAreNamedOnBothSidesOverTcp) {
  for (const Wire wire : {Wire::TcpInHost, Wire::TcpBetweenHosts}) {
    for (const Mismatch& mismatch : mismatches(Algorithm::Ring)) {
      const Outcome outcome = collect(2, {.timeout_s = 20}, mismatch.call, wire);
      for (const std::string& text : outcome.texts) {
        for (const char* word : mismatch.words) {
          EXPECT_NE(text.find(word), std::string::npos) << mismatch.name << ": " << text;
        }
      }
    }
  }
}

TEST(NoHangs, SendAndReceiveOfDifferentLengthsAreNamed) {
  const auto call = [](World& world) {
    std::vector<float> x(world.rank() == 0 ? 10 : 20);
    if (world.rank() == 0) {
      world.group().send(floats(x), 1);
      world.group().barrier();
    } else {
      world.group().recv(floats(x), 0);
    }
  };
  for (const Wire wire : kWires) {
    for (const std::string& text : collect(2, {.timeout_s = 20}, call, wire).texts) {
      EXPECT_NE(text.find("rank 0 is in send(to 1, fp32, 10 elements"), std::string::npos) << text;
      EXPECT_NE(text.find("rank 1 is in recv(from 0, fp32, 20 elements"), std::string::npos)
          << text;
    }
  }
}

TEST(NoHangs, GroupsEnteredInDifferentOrderAreACycleLongBeforeTheDeadline) {
  const int64_t begin = steady_now_ns();
  const Outcome outcome = collect(2, {.timeout_s = 20}, [](World& world) {
    const auto a = world.group().split(0, world.rank(), "a");
    const auto b = world.group().split(0, world.rank(), "b");
    (world.rank() == 0 ? a : b)->barrier();
    (world.rank() == 0 ? b : a)->barrier();
  });
  EXPECT_LT(double(steady_now_ns() - begin) * 1e-9, 5);
  for (const std::string& text : outcome.texts) {
    EXPECT_NE(text.find("wait for each other in different calls"), std::string::npos) << text;
    EXPECT_NE(text.find("group a"), std::string::npos) << text;
    EXPECT_NE(text.find("group b"), std::string::npos) << text;
  }
}

TEST(NoHangs, DeadlineSaysWhoWaitsForWhomInWhichCallSinceWhen) {
  std::atomic<bool> released{false};
  const Outcome outcome = collect(3, {.timeout_s = 0.5}, [&](World& world) {
    std::vector<float> x(10);
    if (world.rank() == 1) {
      while (!released && !world.aborted()) std::this_thread::yield();
      return;
    }
    try {
      world.group().all_reduce(floats(x), ReduceOp::Sum, Algorithm::Shared);
    } catch (...) {
      released = true;
      throw;
    }
  });
  EXPECT_NE(outcome.first_cause.find("its deadline"), std::string::npos) << outcome.first_cause;
  EXPECT_NE(outcome.first_cause.find("waits for rank 1 in all_reduce(sum, fp32, 10 elements"),
            std::string::npos)
      << outcome.first_cause;
  EXPECT_NE(outcome.first_cause.find("rank 1 waits for nobody"), std::string::npos)
      << outcome.first_cause;
}

TEST(NoHangs, AsynchronousWaitTakesItsOwnDeadline) {
  const Outcome outcome = collect(2, {.timeout_s = 20}, [](World& world) {
    std::vector<float> x(10);
    if (world.rank() == 0) {
      Work work = world.group().start_recv(floats(x), 1);
      work.wait(0.02);
    } else {
      while (!world.aborted()) std::this_thread::yield();
    }
  });
  EXPECT_NE(outcome.first_cause.find("its deadline"), std::string::npos) << outcome.first_cause;
}

TEST(NoHangs, ARankThatReturnsEarlyIsNamed) {
  const auto call = [](World& world) {
    std::vector<float> x(1000);
    if (world.rank() != 2) world.group().all_reduce(floats(x), ReduceOp::Sum, Algorithm::Ring);
  };
  for (const Wire wire : kWires) {
    const std::string cause = collect(4, {.timeout_s = 20}, call, wire).first_cause;
    EXPECT_NE(cause.find("rank 2 has left"), std::string::npos) << cause;
  }
}

TEST(NoHangs, TheFirstCauseIsThatOfTheRankThatFailed) {
  try {
    run_ranks(3, [](World& world) {
      if (world.rank() == 1) throw DeviceError("the device is gone");
      world.group().barrier();
    });
    FAIL();
  } catch (const RankError& error) {
    EXPECT_EQ(error.rank(), 1);
    EXPECT_STREQ(error.what(), "rank 1: the device is gone");
    EXPECT_EQ(error.error().message, "the device is gone");
  }
}

struct Fault {
  enum Kind { Throw, Silent, Leave } kind;
  int victim;
  int point;  // number of the victim's transfers and announcements before the fault
};

class Injected : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Runs random collectives, the same on every rank.
void random_program(World& world, unsigned seed) {
  std::mt19937 rng(seed);
  for (int call = 0; call < 30; ++call) {
    const Collective collective = Collective(rng() % (int(Collective::Barrier) + 1));
    const std::vector<Algorithm> algorithms = algorithms_of(collective, world.size());
    const bool shared = rng() % 3 == 0 && world.group().shares_memory();
    CollectiveCase c{
        .collective = collective,
        .algorithm = shared ? Algorithm::Shared : algorithms[rng() % algorithms.size()],
        .count = int64_t(rng() % 2 == 0 ? rng() % 50 : rng() % 5000),
        .asynchronous = rng() % 4 == 0,
        .seed = seed};
    CollectiveRun run(world, world.group(), c);
    run.fill();
    run.run();
  }
}

struct Injection {
  unsigned seed;
  int size;
  Fault fault;
  Wire wire = Wire::Threads;
};

Injection draw(unsigned seed, Wire wire) {
  std::mt19937 rng(seed);
  const int size = 2 + int(rng() % 4);
  const Fault fault{Fault::Kind(rng() % 8 < 6    ? 0
                                : rng() % 2 == 0 ? 1
                                                 : 2),
                    int(rng() % unsigned(size)), int(rng() % 60)};
  return {seed, size, fault, wire};
}

// Returns "" or the first cause if it does not name the victim. A silent rank is noticed by a
// deadline.
std::string misnamed(const Injection& injection, double deadline_s) {
  const unsigned seed = injection.seed;
  const int size = injection.size;
  const Fault& fault = injection.fault;
  std::atomic<int> points{0};
  std::atomic<bool> released{false};
  std::atomic<bool> happened{false};
  WorldOptions options{.timeout_s = fault.kind == Fault::Silent ? deadline_s : 20.0};
  options.fault_hook = [&](int rank) {
    if (rank != fault.victim || points.fetch_add(1) != fault.point) return;
    happened = true;
    if (fault.kind == Fault::Silent) {
      while (!released) std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    throw Injected("injected");
  };
  std::string cause;
  try {
    run_over(injection.wire, size, options, [&](World& world) {
      try {
        if (fault.kind == Fault::Leave && world.rank() == fault.victim) {
          happened = true;
          return;
        }
        random_program(world, seed);
      } catch (...) {
        released = true;
        throw;
      }
    });
  } catch (const RankError& error) {
    cause = error.what();
  }
  if (!happened) return "";                                    // the program ended before the fault
  if (fault.kind == Fault::Leave && cause.empty()) return "";  // no rank needed the victim any more
  const std::string victim = fmt::format("rank {}", fault.victim);
  const std::string expected = fault.kind == Fault::Throw    ? victim + ": injected"
                               : fault.kind == Fault::Silent ? victim + " waits for nobody"
                                                             : victim + " has left";
  // The victim's communication thread may be silent while its calling thread waits.
  const bool named =
      cause.find(expected) != std::string::npos ||
      (fault.kind == Fault::Silent && cause.find(victim + " does not answer") != std::string::npos);
  if (named) return "";
  return fmt::format("seed {} size {} kind {} victim {} point {}: {}", seed, size, int(fault.kind),
                     fault.victim, fault.point, cause);
}

// On a busy machine another rank may be late by more than a short deadline. Then the silent rank
// must be named with a longer one.
void inject(unsigned seed, Wire wire) {
  const Injection injection = draw(seed, wire);
  std::string text = misnamed(injection, 0.15);
  for (const double deadline_s : {0.6, 2.4}) {
    if (text.empty() || injection.fault.kind != Fault::Silent) break;
    text = misnamed(injection, deadline_s);
  }
  ASSERT_EQ(text, "");
}

// Each silent rank costs a deadline but no processor time, so several faults run at once.
void inject_all(unsigned num_faults, Wire wire) {
  std::atomic<unsigned> next{1};
  const auto work = [&] {
    for (unsigned seed = next++; seed <= num_faults; seed = next++) {
      inject(seed, wire);
      if (testing::Test::HasFatalFailure()) return;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
}

TEST(NoHangs, ARankThatThrowsOrFallsSilentOrLeavesAtARandomPointIsNamed) {
  inject_all(kFaults, Wire::Threads);
}

TEST(NoHangs, ARankThatThrowsOrFallsSilentOrLeavesIsNamedOverTcp) {
  inject_all(kTcpFaults, Wire::TcpInHost);
  inject_all(kTcpFaults, Wire::TcpBetweenHosts);
}

}  // namespace
}  // namespace trireme
