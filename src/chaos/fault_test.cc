#include "chaos/fault.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>

#include "base/file.h"
#include "chaos/flip_bit.h"
#include "chaos/machine_needs.h"
#include "chaos/run_log.h"
#include "chaos/same_numbers.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr FaultKind kAll[] = {FaultKind::Kill, FaultKind::Stop, FaultKind::Partition,
                              FaultKind::Disk, FaultKind::Flip, FaultKind::Point,
                              FaultKind::Agent};

FaultPlan plan_of(uint64_t seed) { return {{std::begin(kAll), std::end(kAll)}, 15.0, seed}; }

TEST(PlannedFault, DependsOnSeedAndNumberAlone) {
  for (int number = 0; number < 100; ++number) {
    const PlannedFault a = planned_fault(plan_of(7), number), b = planned_fault(plan_of(7), number);
    const PlannedFault c = planned_fault(plan_of(8), number);
    EXPECT_EQ(a.kind, b.kind);
    EXPECT_EQ(a.after_s, b.after_s);
    EXPECT_EQ(a.target, b.target);
    EXPECT_NE(a.after_s, c.after_s);
  }
}

TEST(PlannedFault, ComesInTheMeanTimeAndInAllKindsEquallyOften) {
  constexpr int kFaults = 20000;
  double seconds = 0.0;
  std::map<FaultKind, int> counts;
  for (int number = 0; number < kFaults; ++number) {
    const PlannedFault fault = planned_fault(plan_of(1), number);
    EXPECT_GT(fault.after_s, 0.0);
    seconds += fault.after_s;
    ++counts[fault.kind];
  }
  EXPECT_NEAR(seconds / kFaults, 15.0, 0.3);
  for (const FaultKind kind : kAll)
    EXPECT_NEAR(counts[kind], kFaults / double(std::size(kAll)), 1) << name_of(kind);
}

TEST(PlannedFault, EveryKindComesOnceInEachRoundAndTheOrdersDiffer) {
  for (size_t num_kinds = 1; num_kinds <= std::size(kAll); ++num_kinds) {
    std::set<std::vector<FaultKind>> orders;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      FaultPlan plan = plan_of(seed);
      plan.kinds.resize(num_kinds);
      for (size_t round = 0; round < 10; ++round) {
        std::vector<FaultKind> order;
        for (size_t i = 0; i < num_kinds; ++i) {
          order.push_back(planned_fault(plan, int(round * num_kinds + i)).kind);
        }
        orders.insert(order);
        EXPECT_EQ(std::set<FaultKind>(order.begin(), order.end()).size(), num_kinds);
      }
    }
    const std::array<size_t, 8> num_orders = {0, 1, 2, 6, 24, 60, 100, 150};
    EXPECT_GE(orders.size(), num_orders[num_kinds]);
  }
}

TEST(FaultKinds, AreReadBackAndUnknownOnesRefused) {
  const auto kinds = fault_kinds_in("kill,stop,partition,disk,flip,point,agent,kill");
  ASSERT_TRUE(kinds.ok());
  EXPECT_EQ(*kinds, std::vector<FaultKind>(std::begin(kAll), std::end(kAll)));
  for (const char* wrong : {"", "kill,", "kil", "kill stop"}) {
    EXPECT_FALSE(fault_kinds_in(wrong).ok()) << wrong;
  }
}

TEST(CrashPoints, EachIsVisitedInTurnAndTheEndComesLast) {
  const auto points = crash_points_in("leave,load,disk-committed,load");
  ASSERT_TRUE(points.ok());
  const std::vector<CrashPoint> want = {CrashPoint::Load, CrashPoint::DiskCommitted,
                                        CrashPoint::Leave};
  EXPECT_EQ(*points, want);
  FaultPlan plan = plan_of(1);
  plan.points = *points;
  for (int number = 0; number < 7; ++number) {
    EXPECT_EQ(planned_fault(plan, number).point, want[size_t(number) % want.size()]);
  }
  for (const char* wrong : {"", "none", "start", "leave,reported", "load leave"}) {
    EXPECT_FALSE(crash_points_in(wrong).ok()) << wrong;
  }
}

// The ranks of a job reach only the points of the checkpoints that it saves.
TEST(CrashPoints, AreThoseThatTheJobReaches) {
  const auto has = [](const JobFacts& job, CrashPoint point) {
    const std::vector<CrashPoint> points = crash_points_of(job);
    const bool is_there = std::find(points.begin(), points.end(), point) != points.end();
    EXPECT_EQ(is_there, check_points({point}, job).ok()) << name_of(point);
    return is_there;
  };
  EXPECT_TRUE(has({}, CrashPoint::Restored));
  EXPECT_FALSE(has({}, CrashPoint::MemoryCommitted));
  EXPECT_FALSE(has({.saves_to_memory = true}, CrashPoint::DiskWritten));
  EXPECT_TRUE(has({.saves_to_memory = true}, CrashPoint::BeforeUpdate));
  EXPECT_TRUE(has({.saves_to_disk = true}, CrashPoint::DiskWritten));
  EXPECT_EQ(crash_points_of({true, true}).back(), CrashPoint::Leave);
}

TEST(FaultNeeds, NameWhatTheJobLacks) {
  EXPECT_TRUE(check_faults({FaultKind::Kill, FaultKind::Stop}, {}).ok());
  const auto why = [](FaultKind kind, const JobFacts& job) {
    const Status checked = check_faults({kind}, job);
    return checked.ok() ? "" : checked.error().message;
  };
  EXPECT_NE(why(FaultKind::Flip, {}).find("set checkpoint.every"), std::string::npos);
  EXPECT_NE(why(FaultKind::Disk, {}).find("set checkpoint.every"), std::string::npos);
  EXPECT_NE(why(FaultKind::Point, {.num_ranks = 1}).find("set --ranks 2"), std::string::npos);
  EXPECT_NE(why(FaultKind::Flip, {.saves_to_disk = true, .kept = 1}).find("checkpoint.keep = 2"),
            std::string::npos);
  EXPECT_EQ(why(FaultKind::Flip, {.saves_to_disk = true, .kept = 2}), "");
  EXPECT_NE(why(FaultKind::Partition, {}).find("run.reproducible"), std::string::npos);
  EXPECT_EQ(why(FaultKind::Agent, {}), "");
  EXPECT_FALSE(check_faults({FaultKind::Agent, FaultKind::Partition}, {.may_move = true}).ok());
}

class ChaosFiles : public testing::Test {
 protected:
  ChaosFiles() { fs::create_directories(folder_); }
  ~ChaosFiles() override { fs::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text) {
    EXPECT_TRUE(write_file_atomically(folder_ + "/" + name, text).ok());
    return folder_ + "/" + name;
  }
  std::string folder_ =
      (fs::temp_directory_path() / ("trireme_chaos." + std::to_string(::getpid()))).string();
};

TEST_F(ChaosFiles, AFlipChangesExactlyOneBitOfOneFile) {
  for (int number = 0; number < 50; ++number) {
    const std::string a(100, 'a'), b(7, 'b');
    const std::string a_path = write("a", a), b_path = write("b", b);
    ASSERT_TRUE(flip_bit(folder_, planned_fault(plan_of(3), number)).ok());
    const std::string now = *read_text_file(a_path) + *read_text_file(b_path), before = a + b;
    ASSERT_EQ(now.size(), before.size());
    int bits = 0;
    for (size_t i = 0; i < now.size(); ++i) bits += __builtin_popcount(uint8_t(now[i] ^ before[i]));
    EXPECT_EQ(bits, 1);
  }
  fs::remove_all(folder_);
  fs::create_directories(folder_);
  EXPECT_FALSE(flip_bit(folder_, planned_fault(plan_of(3), 0)).ok());
}

constexpr const char* kSteps =
    R"({"event":"train","step":1,"time":10.0,"loss":5.5,"grad_norm":1.25}
{"event":"train","step":2,"time":11.0,"loss":5.4375,"grad_norm":null}
)";

TEST_F(ChaosFiles, EveryOtherDigitOfALogIsADifference) {
  const auto read = [&](const std::string& text) { return *read_run_log(write("log", text)); };
  const auto compared = [&](const std::string& text) {
    Comparison comparison;
    compare_steps(read(kSteps), read(text), comparison);
    return comparison;
  };
  EXPECT_TRUE(compared(kSteps).all_equal());
  EXPECT_TRUE(compared(std::string(kSteps) + "{\"event\":\"failure\",\"step\":2}\n").all_equal());
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = kSteps;
    return compared(text.replace(text.find(from), from.size(), to));
  };
  EXPECT_EQ(changed("5.4375", "5.4376").losses, "step 2: 5.4376 instead of 5.4375");
  EXPECT_EQ(changed("1.25", "1.5").norms, "step 1: 1.5 instead of 1.25");
  EXPECT_NE(changed("\"step\":2", "\"step\":3").losses, "");
  const std::string first(kSteps, std::string(kSteps).find('\n') + 1);
  EXPECT_EQ(compared(first).losses, "there are 1 steps instead of 2");
  EXPECT_NE(compared("").losses, "");
}

// The first step of an epoch is a part of the recovery, which is counted by itself.
TEST_F(ChaosFiles, TheMeanStepLeavesOutThoseOfRecoveries) {
  const auto mean_of = [&](const std::string& text) {
    return mean_step_s(*read_run_log(write("log", text)));
  };
  const auto step = [](int number, double seconds) {
    return fmt::format(
        R"({{"event":"train","step":{},"time":1.0,"loss":1.0,"grad_norm":1.0,"step_s":{}}})"
        "\n",
        number, seconds);
  };
  const std::string restart =
      R"({"event":"restart","step":2,"time":2.0,"epoch":2,"redone_steps":0,)"
      R"("ms":{"detect":1.0,"first_step":1.0}})"
      "\n";
  EXPECT_FALSE(mean_of("").has_value());
  EXPECT_FALSE(mean_of(kSteps).has_value());
  EXPECT_DOUBLE_EQ(*mean_of(step(1, 0.25) + step(2, 0.5)), 0.5);  // the first step starts the run
  EXPECT_DOUBLE_EQ(*mean_of(step(1, 9.0) + step(2, 0.5) + restart + step(3, 7.0) + step(4, 0.25)),
                   0.375);
}

TEST_F(ChaosFiles, TheLastStepIsReadFromAFileThatIsWritten) {
  EXPECT_EQ(last_step_in(folder_ + "/none"), 0);
  EXPECT_EQ(last_step_in(write("log", kSteps)), 2);
  EXPECT_EQ(last_step_in(write("log", std::string(kSteps) + std::string(60000, ' '))), 2);
}

}  // namespace
}  // namespace trireme
