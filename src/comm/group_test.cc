#include "comm/group.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>

#include "comm/collective_check.h"
#include "comm/group_driver.h"
#include "comm/world.h"

namespace trireme {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kScale = 6;  // covers all pairs of values instead of all combinations
#else
constexpr int kScale = 1;
#endif

std::vector<Algorithm> all_algorithms(Collective collective, int size) {
  std::vector<Algorithm> all = algorithms_of(collective, size);
  all.insert(all.end(), {Algorithm::Shared, Algorithm::Auto, Algorithm::Canonical});
  return all;
}

// Integers are tested in every combination. A failing case prints its seed.
TEST(Collectives, IntegersAgreeBitwiseForEveryAlgorithmSizeCountTypeAndReduction) {
  std::mutex mutex;
  std::string failure;
  uint64_t seed = 1;
  for (int size : {1, 2, 3, 4, 5, 6, 7, 8, 12, 16}) {
    std::vector<CollectiveCase> cases;
    for (int c = 0; c <= int(Collective::Barrier); ++c) {
      for (Algorithm algorithm : all_algorithms(Collective(c), size)) {
        for (int64_t count : {0, 1, 5, 240, 1031, 20011}) {
          for (DType dtype : {DType::F32, DType::BF16, DType::F16, DType::I32, DType::I64}) {
            for (ReduceOp op : {ReduceOp::Sum, ReduceOp::Mean, ReduceOp::Max, ReduceOp::Min}) {
              if (!is_reduction(Collective(c)) && (op != ReduceOp::Sum || dtype == DType::I32))
                continue;
              ++seed;
              if (seed % uint64_t(kScale) != 0 || (count > 10000 && seed % 5 != 0)) continue;
              if (size > 4 && seed % (size > 8 ? 7 : 3) != 0) continue;
              cases.push_back({.collective = Collective(c),
                               .algorithm = algorithm,
                               .dtype = dtype,
                               .op = op,
                               .count = count,
                               .root = is_rooted(Collective(c)) ? int(seed % uint64_t(size)) : 0,
                               .asynchronous = seed % 11 == 0,
                               .seed = seed});
            }
          }
        }
      }
    }
    // Simulated nodes do not share memory.
    for (const int ranks_per_node : {0, 1 + int(seed % 3)}) {
      run_ranks(size, {.nodes = ranks_per_node}, [&](World& world) {
        for (const CollectiveCase& c : cases) {
          const bool needs_memory = c.algorithm == Algorithm::Shared;
          const bool is_free =
              c.algorithm == Algorithm::Auto || c.algorithm == Algorithm::Canonical;
          // Only these algorithms depend on shared memory.
          if (ranks_per_node == 0 ? !needs_memory && !is_free : needs_memory) continue;
          const std::string wrong = check_collective(world, world.group(), c);
          if (wrong.empty()) continue;
          const std::lock_guard lock(mutex);
          if (failure.empty()) failure = wrong;
        }
      });
      ASSERT_EQ(failure, "") << "size " << size << ", nodes of " << ranks_per_node;
    }
  }
}

TEST(Collectives, RandomDataIsWithinTheBoundAndEqualOnAllRanksAndFromRunToRun) {
  std::mutex mutex;
  for (int size : {2, 3, 4, 6, 8}) {
    for (Algorithm algorithm : all_algorithms(Collective::AllReduce, size)) {
      for (DType dtype : {DType::F32, DType::BF16, DType::F16}) {
        std::vector<uint64_t> hashes;
        std::string failure;
        for (int repeat = 0; repeat < 2; ++repeat) {
          const int ranks_per_node = algorithm == Algorithm::Shared ? 0 : 2;
          run_ranks(size, {.nodes = ranks_per_node}, [&](World& world) {
            CollectiveRun run(world, world.group(),
                              {.algorithm = algorithm,
                               .dtype = dtype,
                               .count = 5003,
                               .integers = false,
                               .seed = 77});
            run.fill();
            run.run();
            const std::lock_guard lock(mutex);
            if (failure.empty()) failure = run.verify();
            hashes.push_back(run.output_hash());
          });
        }
        ASSERT_EQ(failure, "");
        for (uint64_t hash : hashes) {
          ASSERT_EQ(hash, hashes[0]) << name_of(algorithm) << " size " << size;
        }
      }
    }
  }
}

TEST(Collectives, UnequalCounts) {
  std::mutex mutex;
  std::string failure;
  for (int size : {1, 2, 3, 5, 8}) {
    run_ranks(size, [&](World& world) {
      uint64_t seed = 100;
      for (Collective c : {Collective::AllGather, Collective::ReduceScatter, Collective::Scatter,
                           Collective::Gather, Collective::AllToAll}) {
        for (Algorithm algorithm : all_algorithms(c, size)) {
          if (c == Collective::AllToAll &&
              (algorithm == Algorithm::Ring || algorithm == Algorithm::Doubling)) {
            continue;
          }
          for (int64_t count : {0, 3, 17, 4096}) {
            const std::string wrong = check_collective(world, world.group(),
                                                       {.collective = c,
                                                        .algorithm = algorithm,
                                                        .count = count,
                                                        .uneven = true,
                                                        .seed = ++seed});
            const std::lock_guard lock(mutex);
            if (failure.empty()) failure = wrong;
          }
        }
      }
    });
    ASSERT_EQ(failure, "") << "size " << size;
  }
}

// Sums 16 addends in aligned blocks by a local binary tree, then across ranks.
template <typename T>
std::vector<T> sum_in_blocks(int size, Algorithm algorithm) {
  constexpr int kAddends = 16;
  constexpr int64_t kCount = 3001;
  std::vector<T> sum;
  run_ranks(size, [&](World& world) {
    const int block = kAddends / size;
    std::vector<std::vector<T>> level;
    for (int i = 0; i < block; ++i) {
      std::mt19937 rng{unsigned(world.rank() * block + i)};
      std::normal_distribution<float> normal;
      level.emplace_back();
      for (int64_t j = 0; j < kCount; ++j) level.back().push_back(T(normal(rng)));
    }
    while (level.size() > 1) {
      for (size_t i = 0; i < level.size() / 2; ++i) {
        for (size_t j = 0; j < size_t(kCount); ++j) {
          level[i][j] = T(float(level[2 * i][j]) + float(level[2 * i + 1][j]));
        }
      }
      level.resize(level.size() / 2);
    }
    world.group().all_reduce({level[0].data(), dtype_of<T>, Shape{kCount}}, ReduceOp::Sum,
                             algorithm);
    if (world.rank() == size - 1) sum = level[0];
  });
  return sum;
}

template <typename T>
void expect_one_sum() {
  const std::vector<T> one = sum_in_blocks<T>(1, Algorithm::Canonical);
  for (int size : {2, 4, 8, 16}) {
    for (Algorithm algorithm :
         {Algorithm::Canonical, Algorithm::Shared, Algorithm::Tree, Algorithm::Naive,
          Algorithm::ParameterServer, Algorithm::Doubling, Algorithm::HalvingDoubling}) {
      const std::vector<T> sum = sum_in_blocks<T>(size, algorithm);
      EXPECT_EQ(std::memcmp(sum.data(), one.data(), sum.size() * sizeof(T)), 0)
          << name_of(dtype_of<T>) << " " << name_of(algorithm) << " on " << size << " ranks";
    }
  }
}

// This law gives equal bits on every degree of data parallelism and, with slices, of tensor
// parallelism: every power of two of ranks has the same sum.
TEST(Collectives, CanonicalOrderHasOneSumForEveryPowerOfTwoGrouping) {
  expect_one_sum<float>();
  expect_one_sum<bf16>();
  expect_one_sum<f16>();
}

TEST(Collectives, CanonicalReduceScatterHasTheBitsOfCanonicalAllReduce) {
  for (int size : {2, 4, 8}) {
    for (Algorithm algorithm : {Algorithm::Shared, Algorithm::HalvingDoubling}) {
      run_ranks(size, [&](World& world) {
        constexpr int64_t kCount = 1003;
        std::mt19937 rng{unsigned(world.rank())};
        std::normal_distribution<float> normal;
        std::vector<float> x(kCount);
        for (float& v : x) v = normal(rng);
        std::vector<float> part(size_t(balanced_count(kCount, world.size(), world.rank())));
        world.group().reduce_scatter({x.data(), DType::F32, Shape{kCount}},
                                     {part.data(), DType::F32, Shape{int64_t(part.size())}},
                                     ReduceOp::Sum, algorithm);
        world.group().all_reduce({x.data(), DType::F32, Shape{kCount}}, ReduceOp::Sum,
                                 Algorithm::Doubling);
        const int64_t begin = balanced_begin(kCount, size, world.rank());
        for (size_t i = 0; i < part.size(); ++i) {
          ASSERT_EQ(part[i], x[size_t(begin) + i]);
        }
      });
    }
  }
}

TEST(Accounting, CountsWhatThePlansSayForEveryAlgorithm) {
  for (int size : {1, 2, 3, 4, 6, 8, 12, 16}) {
    run_ranks(size, [&](World& world) {
      Group& group = world.group();
      for (int c = 0; c <= int(Collective::Barrier); ++c) {
        for (Algorithm algorithm : all_algorithms(Collective(c), size)) {
          for (int64_t count : {0, 1, 100, 1600}) {
            CollectiveRun run(
                world, group,
                {.collective = Collective(c), .algorithm = algorithm, .count = count});
            run.fill();
            const Traffic before = group.traffic(Collective(c));
            run.run();
            Traffic expected = before;
            expected += group.driver().predict(run.args());
            const Traffic after = group.traffic(Collective(c));
            ASSERT_EQ(after.sent_bytes, expected.sent_bytes);
            ASSERT_EQ(after.received_bytes, expected.received_bytes);
            ASSERT_EQ(after.sent_messages, expected.sent_messages);
            ASSERT_EQ(after.received_messages, expected.received_messages);
          }
        }
      }
    });
  }
}

TEST(Accounting, SharedSendsInTotalWhatItReceives) {
  for (int size = 1; size <= 16; ++size) {
    for (int c = 0; c <= int(Collective::Barrier); ++c) {
      for (int64_t count : {0, 1, 100, 100000}) {
        int64_t sent = 0;
        int64_t received = 0;
        for (int rank = 0; rank < size; ++rank) {
          const PlanTraffic t = shared_traffic({.collective = Collective(c),
                                                .rank = rank,
                                                .size = size,
                                                .root = size / 2,
                                                .count = count},
                                               4);
          sent += t.sent;
          received += t.received;
        }
        EXPECT_EQ(sent, received);
        if (Collective(c) == Collective::AllReduce && count > kEagerBytes) {
          EXPECT_EQ(sent, 2 * (size - 1) * count);  // the least that an all-reduce can send
        }
      }
    }
  }
}

TEST(Scratch, OfACallThatWasReservedDoesNotGrow) {
  for (int size : {1, 2, 3, 4, 6, 8}) {
    run_ranks(size, {.nodes = 2}, [&](World& world) {
      for (int c = 0; c <= int(Collective::Barrier); ++c) {
        for (Algorithm algorithm : all_algorithms(Collective(c), size)) {
          if (algorithm == Algorithm::Shared) continue;
          const auto group = world.group().split(0, world.rank(), "fresh");
          CollectiveRun run(world, *group,
                            {.collective = Collective(c), .algorithm = algorithm, .count = 1000});
          run.fill();
          group->reserve(run.args());
          const int64_t reserved = group->scratch_bytes();
          run.run();
          ASSERT_EQ(group->scratch_bytes(), reserved) << name_of(algorithm);
        }
      }
    });
  }
}

TEST(PointToPoint, MatchesByTagInOrderWhateverTheOrderOfReceiving) {
  run_ranks(2, [](World& world) {
    Group& group = world.group();
    std::vector<std::vector<float>> data;
    for (int tag = 0; tag < 6; ++tag) {  // short and long messages
      data.emplace_back(tag % 2 == 0 ? 3 : 5000, world.rank() == 0 ? float(tag) : -1.0f);
    }
    const auto ref = [&](int i) {
      return TensorRef{data[size_t(i)].data(), DType::F32, Shape{int64_t(data[size_t(i)].size())}};
    };
    std::vector<Work> works;
    if (world.rank() == 0) {
      for (int tag = 0; tag < 6; ++tag) works.push_back(group.start_send(ref(tag), 1, tag));
    } else {
      for (int tag = 5; tag >= 0; --tag) works.push_back(group.start_recv(ref(tag), 0, tag));
    }
    for (Work& work : works) work.wait();
    for (int tag = 0; tag < 6; ++tag) {
      for (float x : data[size_t(tag)]) ASSERT_EQ(x, float(tag));
    }
  });
}

// Sends more messages than a channel has slots, short and long ones, so slots are reused before
// either end has polled them.
TEST(PointToPoint, ManyMessagesWaitForASlowReceiver) {
  constexpr int kMessages = 200;
  for (const int64_t count : {1, 1000}) {
    run_ranks(2, {.timeout_s = 20}, [&](World& world) {
      Group& group = world.group();
      std::vector<std::vector<float>> data;
      for (int i = 0; i < kMessages; ++i) {
        data.emplace_back(size_t(count), world.rank() == 0 ? float(i) : -1.0f);
      }
      const auto ref = [&](int i) {
        return TensorRef{data[size_t(i)].data(), DType::F32, Shape{count}};
      };
      std::vector<Work> sends;
      for (int i = 0; i < kMessages; ++i) {
        if (world.rank() == 0) {
          sends.push_back(group.start_send(ref(i), 1));
          continue;
        }
        if (i % 8 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        group.recv(ref(i), 0);
        ASSERT_EQ(data[size_t(i)].back(), float(i));
      }
      for (Work& send : sends) send.wait();
    });
  }
}

// Both ranks send before they receive. This hangs if sending waits for the peer's receive.
TEST(PointToPoint, CrossedAsynchronousTransfersOf64MebibytesProgress) {
  run_ranks(2, [](World& world) {
    const int64_t count = kScale > 1 ? 1 << 20 : 16 << 20;
    Tensor out(DType::F32, Shape{count});
    Tensor in(DType::F32, Shape{count});
    out.ref().as<float>()[count - 1] = float(world.rank() + 1);
    Work send = world.group().start_send(out, 1 - world.rank());
    Work recv = world.group().start_recv(in, 1 - world.rank());
    send.wait();
    recv.wait();
    EXPECT_EQ(in.ref().as<float>()[count - 1], float(2 - world.rank()));
  });
}

TEST(Work, CollectivesOfOneGroupRunInCallOrderBesideTheCaller) {
  run_ranks(4, [](World& world) {
    std::vector<Tensor> tensors;
    std::vector<Work> works;
    for (int i = 0; i < 20; ++i) {
      tensors.emplace_back(DType::I64, Shape{100 + 997 * (i % 3)});
      for (int64_t j = 0; j < tensors.back().ref().num_elements(); ++j) {
        tensors.back().ref().as<int64_t>()[j] = i + j;
      }
      works.push_back(
          world.group().start({.collective = Collective::AllReduce,
                               .in = tensors.back(),
                               .out = tensors.back(),
                               .algorithm = i % 2 ? Algorithm::Ring : Algorithm::Shared}));
      if (i % 5 == 4) world.group().barrier();  // a blocking call waits behind the started ones
    }
    for (Work& work : works) work.wait();
    for (int i = 0; i < 20; ++i) {
      for (int64_t j = 0; j < tensors[size_t(i)].ref().num_elements(); ++j) {
        ASSERT_EQ(tensors[size_t(i)].ref().as<int64_t>()[j], 4 * (i + j));
      }
    }
  });
}

TEST(Group, WorkThatOneRankHasAloneIsNoSilence) {
  run_ranks(2, {.timeout_s = 0.1}, [](World& world) {
    if (world.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    world.group().monitored_barrier();
  });
}

TEST(Group, SplitOrdersByKeyAndColorsAreSeparate) {
  run_ranks(6, [](World& world) {
    const int color = world.rank() % 2;
    const auto group = world.group().split(color, -world.rank(), "half");
    ASSERT_EQ(group->size(), 3);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(group->members()[size_t(i)], 4 + color - 2 * i);
    const auto single = group->split(group->rank(), 0, "single");
    ASSERT_EQ(single->size(), 1);
    int64_t x = world.rank();
    group->all_reduce({&x, DType::I64, Shape{1}});
    EXPECT_EQ(x, color == 0 ? 6 : 9);
    single->all_reduce({&x, DType::I64, Shape{1}}, ReduceOp::Mean);
    EXPECT_EQ(x, color == 0 ? 6 : 9);
  });
}

}  // namespace
}  // namespace trireme
