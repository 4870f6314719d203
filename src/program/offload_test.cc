#include "program/offload.h"

#include <gtest/gtest.h>

#include "program/accumulate.h"

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

}  // namespace
}  // namespace trireme
