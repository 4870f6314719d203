#include "schema/message_cut.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace trireme {
namespace {

// The rows of a tensor before its rank's first one.
int64_t first_row(const MessageCut& cut, int64_t all_rows) {
  return cut.shares_rows ? cut.own_part(all_rows).begin : 0;
}

// Every row of every group crosses once, and both ends agree on which rows they exchange.
TEST(MessageCut, EveryRowOfAGroupCrossesOnce) {
  for (int tp_from = 1; tp_from <= 6; ++tp_from) {
    for (int tp_to = 1; tp_to <= 6; ++tp_to) {
      for (const bool shares_rows : {false, true}) {
        const int64_t all = shares_rows ? 60 : 7;  // ranks that share rows have equally many
        const int groups = std::gcd(tp_from, tp_to);
        std::vector<int> crossed(size_t(all * groups), 0);
        for (int from = 0; from < tp_from; ++from) {
          const StageShape sender{.tp = tp_from, .tp_rank = from, .sequence_parallel = shares_rows};
          const MessageCut sent = message_cut(sender, tp_to);
          const int64_t rows_sent = shares_rows ? all / sent.here : all;
          ASSERT_EQ(sent.all_rows(rows_sent), all);
          for (int other = 0; other < sent.there; ++other) {
            const int to = sent.first_there + other;
            ASSERT_LT(to, tp_to);
            const StageShape receiver{.tp = tp_to, .tp_rank = to, .sequence_parallel = shares_rows};
            const MessageCut received = message_cut(receiver, tp_from);
            const int64_t rows_received = shares_rows ? all / received.here : all;
            const RowRange here = sent.common(rows_sent, other);
            const RowRange there = received.common(rows_received, from - received.first_there);
            ASSERT_EQ(here.count, there.count);
            if (here.count == 0) continue;
            ASSERT_EQ(here.begin + first_row(sent, all), there.begin + first_row(received, all));
            for (int64_t row = 0; row < here.count; ++row) {
              const int64_t group = from / sent.here;
              ++crossed[size_t(group * all + here.begin + first_row(sent, all) + row)];
            }
          }
        }
        for (const int times : crossed) ASSERT_EQ(times, 1) << tp_from << " to " << tp_to;
      }
    }
  }
}

// With equal degrees a message is whole and has one end.
TEST(MessageCut, EqualDegreesSendWholeMessages) {
  for (const bool shares_rows : {false, true}) {
    const StageShape shape{.tp = 4, .tp_rank = 3, .sequence_parallel = shares_rows};
    const MessageCut cut = message_cut(shape, 4);
    EXPECT_EQ(cut.there, 1);
    EXPECT_EQ(cut.first_there, 3);
    EXPECT_EQ(cut.common(5, 0).begin, 0);
    EXPECT_EQ(cut.common(5, 0).count, 5);
    EXPECT_EQ(cut.num_gathering(), 1);
  }
}

}  // namespace
}  // namespace trireme
