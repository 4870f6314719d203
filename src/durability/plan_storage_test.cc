#include "durability/plan_storage.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trireme {
namespace {

StorageQuestion question_of(double bytes) {
  StorageQuestion question{.cluster = {.servers = 100,
                                       .disks_per_server = 2,
                                       .disk_bytes = 1e12,
                                       .bytes_per_s = 1e11,
                                       .peak_bytes_per_s = 3e11,
                                       .repair_bytes_per_s = 1e10,
                                       .detect_s = 600.0,
                                       .disk_losses_per_year = 0.01},
                           .codes = {{1, 2}, {2, 1}, {4, 2}, {8, 3}},
                           .samples = 2000};
  question.traffic = CheckpointTraffic{.ranks = 64,
                                       .save_bytes = bytes,
                                       .restore_bytes = 4.0 * bytes,
                                       .step_s = 2.0,
                                       .interval_s = 200.0};
  return question;
}

TEST(PlanStorage, BytesTimesAndCapacityFollowTheOverhead) {
  const StoragePlan plan = plan_storage(question_of(1e12)).value();
  ASSERT_EQ(plan.codes.size(), 4u);
  for (const CodeOnCluster& one : plan.codes) {
    const double k = one.code.num_data, m = one.code.num_parity;
    EXPECT_DOUBLE_EQ(one.stored_bytes, (k + m) / k);
    EXPECT_DOUBLE_EQ(one.capacity_bytes * one.stored_bytes, 200e12);
    EXPECT_DOUBLE_EQ(one.write_bytes_per_s * one.stored_bytes, 1e11);
    EXPECT_DOUBLE_EQ(one.sustained.save_s, 1e12 * one.stored_bytes / 1e11);
    EXPECT_DOUBLE_EQ(one.sustained.restore_s, 4e12 / 1e11);
    EXPECT_DOUBLE_EQ(one.peak.save_s, one.sustained.save_s / 3.0);
    EXPECT_DOUBLE_EQ(one.busy_share, one.sustained.save_s / 200.0);
    // Saves at this distance fit one behind the other, and closer ones do not.
    EXPECT_GE(double(one.least_steps) * 2.0, one.sustained.save_s);
    EXPECT_LT(double(one.least_steps - 1) * 2.0, one.sustained.save_s);
  }
}

TEST(PlanStorage, TimesScaleWithTheBytesUntilTheRanksAreTheLimit) {
  const StoragePlan one = plan_storage(question_of(1e12)).value();
  StorageQuestion larger = question_of(3e12);
  const StoragePlan three = plan_storage(larger).value();
  larger.cluster.rank_bytes_per_s = 1e8;  // 64 ranks have 6.4e9 bytes per second
  const StoragePlan slow = plan_storage(larger).value();
  for (size_t i = 0; i < one.codes.size(); ++i) {
    EXPECT_DOUBLE_EQ(three.codes[i].sustained.save_s, 3.0 * one.codes[i].sustained.save_s);
    EXPECT_DOUBLE_EQ(three.codes[i].peak.restore_s, 3.0 * one.codes[i].peak.restore_s);
    EXPECT_DOUBLE_EQ(slow.codes[i].sustained.restore_s, 12e12 / 6.4e9);
    EXPECT_DOUBLE_EQ(slow.codes[i].sustained.save_s, slow.codes[i].peak.save_s);
  }
}

TEST(PlanStorage, ACodeThatNeedsMoreDomainsIsRefused) {
  StorageQuestion question = question_of(1e12);
  question.cluster.domains = 10;
  const Result<StoragePlan> refused = plan_storage(question);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::Infeasible);
  for (const char* word : {"8+3", "11 chunks", "has 10", "storage.domains"}) {
    EXPECT_NE(refused.error().message.find(word), std::string::npos) << refused.error().message;
  }
  question.cluster.domains = 11;
  EXPECT_TRUE(plan_storage(question).ok());
}

TEST(PlanStorage, RepairThatNeverCatchesUpLosesEverything) {
  StorageQuestion question = question_of(1e12);
  question.cluster.repair_bytes_per_s = 1e4;
  const auto plan = plan_storage(question).value();
  for (const CodeOnCluster& one : plan.codes) {
    EXPECT_FALSE(one.keeps_up());
    EXPECT_EQ(one.loss_in_a_year(), 1.0);
    EXPECT_EQ(one.lost_share_per_year, 1.0);
  }
}

}  // namespace
}  // namespace trireme
