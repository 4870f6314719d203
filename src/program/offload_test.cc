#include "program/offload.h"

#include <gtest/gtest.h>

#include "program/accumulate.h"
#include "program/check_data_parallel.h"
#include "program/data_parallel.h"

namespace trireme {
namespace {

Program one_microbatch() {
  Program program = {{.kind = ActionKind::F}, {.kind = ActionKind::BW}};
  append_step(program);
  return program;
}

TEST(Offload, FetchesAheadAndWritesBackBehind) {
  EXPECT_EQ(to_string(add_offload(one_microbatch(), {4}), 1),
            "F0 BW0 Fetch0 Fetch1 Step Step0 Offload0 Fetch2 Step1 Offload1 Fetch3 Step2 Offload2 "
            "Step3 Offload3");
  EXPECT_EQ(to_string(add_offload(one_microbatch(), {1, 1}), 2),
            "F0.0 BW0.0 Fetch0.0 Fetch0.1 Step Step0.0 Offload0.0 Step0.1 Offload0.1");
  EXPECT_EQ(add_offload(one_microbatch(), {0}), one_microbatch());
}

TEST(Offload, EveryDamageIsFound) {
  for (const OffloadShape& shape : {OffloadShape{5}, OffloadShape{2, 3}, OffloadShape{1}}) {
    const Program good = add_offload(one_microbatch(), shape);
    EXPECT_TRUE(check_offload(good, shape).empty());
    for (size_t i = 2; i < good.size(); ++i) {
      Program dropped = good;
      dropped.erase(dropped.begin() + int64_t(i));
      EXPECT_FALSE(check_offload(dropped, shape).empty()) << i;
      if (good[i].microbatch < 0) continue;
      Program doubled = good;
      doubled.insert(doubled.begin() + int64_t(i), good[i]);
      EXPECT_FALSE(check_offload(doubled, shape).empty()) << i;
      Program renamed = good;
      ++renamed[i].microbatch;
      EXPECT_FALSE(check_offload(renamed, shape).empty()) << i;
    }
  }
}

// Three units in two slots; W reads the parameters of the last unit.
DataParallelShape in_a_file(int zero_level) {
  return {.zero_level = zero_level,
          .params_in_file = true,
          .num_units = {3},
          .groups = {{{0, 1}, {1, 1}, {2, 1}}},
          .num_pieces = {1},
          .kept_gathered = {{false, false, false}},
          .w_reads_params = {{false, false, true}}};
}

Program with_parameters_in_a_file(const DataParallelShape& shape) {
  return add_unshard(add_offload(one_microbatch(), shape.num_pieces), shape);
}

TEST(Offload, ParametersAreReadBeforeTheirUseAndDroppedBehindIt) {
  EXPECT_EQ(to_string(with_parameters_in_a_file(in_a_file(0)), 1),
            "Fetch[0] Fetch[1] F0[0] Reshard[0] Fetch[2] F0[1] Reshard[1] Fetch[1] F0[2] BW0[2] "
            "Reshard[2] Fetch[0] BW0[1] Reshard[1] BW0[0] Reshard[0] Fetch0 Step Step0 Offload0");
}

TEST(Offload, WhatOthersHaveUpdatedIsGatheredAndStored) {
  const std::string text = to_string(with_parameters_in_a_file(in_a_file(1)), 1);
  EXPECT_EQ(text.substr(text.find("Step0")),
            "Step0 Offload0 Fetch[0] Unshard[0] Fetch[1] Offload[0] Reshard[0] Unshard[1] Fetch[2] "
            "Offload[1] Reshard[1] Unshard[2] Offload[2] Reshard[2]");
}

TEST(Offload, EveryDamageToParametersInAFileIsFound) {
  for (const int level : {0, 1, 3}) {
    const DataParallelShape shape = in_a_file(level);
    const Program good = with_parameters_in_a_file(shape);
    EXPECT_TRUE(check_gathered(good, shape).empty()) << to_string(good, 1);
    for (size_t i = 0; i < good.size(); ++i) {
      const bool moves = good[i].num_units > 0 && good[i].microbatch < 0;
      if (!moves) continue;
      Program dropped = good;
      dropped.erase(dropped.begin() + int64_t(i));
      EXPECT_FALSE(check_gathered(dropped, shape).empty()) << level << " " << i;
      Program doubled = good;
      doubled.insert(doubled.begin() + int64_t(i), good[i]);
      EXPECT_FALSE(check_gathered(doubled, shape).empty()) << level << " " << i;
      Program other = good;
      other[i].first_unit = int16_t((good[i].first_unit + 1) % 3);
      EXPECT_FALSE(check_gathered(other, shape).empty()) << level << " " << i;
    }
  }
}

}  // namespace
}  // namespace trireme
