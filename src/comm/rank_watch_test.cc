#include "comm/rank_watch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/failure.h"
#include "comm/world.h"

namespace trireme {
namespace {

using namespace std::chrono_literals;

// The error of a run, and the error that on_hang received.
struct Ended {
  std::optional<Error> error;
  std::optional<Error> hang;
};

// Runs ranks that hang until on_hang releases them, as the end of the process would.
Ended end_of(int num_ranks, WorldOptions options,
             const std::function<void(World&, const std::atomic<bool>& is_over)>& function) {
  Ended ended;
  std::atomic<bool> is_over{false};
  options.on_hang = [&](const Error& error) {
    ended.hang = error;
    is_over = true;
  };
  try {
    run_ranks(num_ranks, options, [&](World& world) { function(world, is_over); });
  } catch (const RankError& error) {
    ended.error = error.error();
  }
  return ended;
}

void hang_until(const std::atomic<bool>& is_over) {
  while (!is_over) std::this_thread::sleep_for(1ms);
}

TEST(RankWatch, NamesRankFileAndCallOfWorkWithoutProgress) {
  for (int rank : {0, 1}) {
    const Ended ended =
        end_of(2, {.progress_timeout_s = 0.3}, [&](World& world, const std::atomic<bool>&) {
          if (world.rank() == rank) {
            const ShownCall call(&world.group().progress(), "fsync", "checkpoints/x.safetensors");
            while (!world.aborted()) std::this_thread::sleep_for(1ms);
          }
          world.group().monitored_barrier();
        });
    ASSERT_TRUE(ended.error);
    EXPECT_FALSE(ended.hang);
    EXPECT_EQ(ended.error->kind, ErrorKind::Runtime);
    const std::string begin = fmt::format("rank {} has made no progress for ", rank);
    EXPECT_EQ(ended.error->message.substr(0, begin.size()), begin) << ended.error->message;
    EXPECT_NE(ended.error->message.find(" s in fsync of checkpoints/x.safetensors; raise "
                                        "checkpoint.timeout_s or look at the disk"),
              std::string::npos)
        << ended.error->message;
  }
}

TEST(RankWatch, SlowWorkThatAdvancesHasNoDeadline) {
  const Ended ended =
      end_of(3, {.timeout_s = 0.5, .progress_timeout_s = 0.5}, [](World& world, const auto&) {
        if (world.rank() == 0) {
          const ShownCall call(&world.group().progress(), "write", "checkpoints/x.safetensors");
          for (int i = 0; i < 150; ++i) {
            std::this_thread::sleep_for(10ms);
            world.group().progress().advance();
          }
        }
        world.group().monitored_barrier();
      });
  EXPECT_FALSE(ended.error) << ended.error->message;
  EXPECT_FALSE(ended.hang);
}

// One rank fails and another one hangs without showing a call: on_hang receives the first cause.
TEST(RankWatch, TellsTheFirstCauseWhereARankDoesNotReturn) {
  const Ended ended = end_of(2, {}, [](World& world, const auto& over) {
    if (world.rank() == 1) throw Failure(damaged("x: no space left"));
    hang_until(over);
  });
  ASSERT_TRUE(ended.error && ended.hang);
  EXPECT_EQ(ended.hang->message, "x: no space left");
  EXPECT_EQ(ended.hang->kind, ErrorKind::Damaged);
}

// Whichever rank fails first, and however, all ranks end with its error kind.
TEST(RankErrorKind, IsThatOfTheFirstCauseForEveryKindOfException) {
  const auto throw_as = [](int way) {
    if (way < 4) throw Failure({ErrorKind(way), "text"});
    if (way == 4) throw IoError("text");
    if (way == 5) throw DeviceError("text");
    if (way == 6) throw CommError("text");
    if (way == 7) throw ContractError("text");
    if (way == 8) throw std::bad_alloc();
  };
  const ErrorKind kinds[] = {ErrorKind::Usage,   ErrorKind::Infeasible, ErrorKind::Damaged,
                             ErrorKind::Runtime, ErrorKind::Damaged,    ErrorKind::Runtime,
                             ErrorKind::Runtime, ErrorKind::Runtime,    ErrorKind::Runtime};
  for (int way = 0; way < 9; ++way) {
    for (int rank : {0, 2}) {
      try {
        run_ranks(3, [&](World& world) {
          if (world.rank() == rank) throw_as(way);
          world.group().barrier();
        });
        FAIL() << "nothing was thrown";
      } catch (const RankError& error) {
        EXPECT_EQ(error.error().kind, kinds[way]) << way;
        EXPECT_EQ(error.rank(), rank);
        EXPECT_EQ(error.error().message.find("rank"), std::string::npos) << error.error().message;
      }
    }
  }
}

}  // namespace
}  // namespace trireme
