// Halos: the rows of images that windows read beyond those of their rank.

#include "sharding/halo.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "comm/world.h"
#include "sharding/redistribute.h"
#include "sharding/redistribution_fixture.h"

namespace trireme {
namespace {

using RankParts = std::vector<std::vector<float>>;  // [rank]

// Every window that fits, on images of so many rows that each rank makes one or more.
void for_each_halo(const std::function<void(int, const Shape&, const Placement&)>& visit) {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const int64_t rows : {4, 7, 8, 15}) {
      for (int64_t size = 1; size <= 11; ++size) {
        for (int64_t stride = 1; stride <= 4; ++stride) {
          for (int64_t padding = 0; padding < std::min<int64_t>(size, 4); ++padding) {
            const RowWindow window{size, stride, padding};
            if (window.positions(rows) < ranks || size > rows + 2 * padding) continue;
            SCOPED_TRACE(fmt::format("{} ranks, {} rows, {}", ranks, rows,
                                     to_string(Placement::halo(window))));
            visit(ranks, Shape{2, rows, 3}, Placement::halo(window));
          }
        }
      }
    }
  }
}

// The values are integers, so sums are exact.
RankParts random_rows(const Shape& global, const Placement& placement, int ranks, unsigned seed) {
  std::mt19937 rng(seed);
  RankParts parts;
  for (int rank = 0; rank < ranks; ++rank) {
    parts.emplace_back(size_t(local_shape(global, placement, ranks, rank).num_elements()));
    for (float& x : parts.back()) x = float(int(rng() % 9) - 4);
  }
  return parts;
}

// Returns the results and checks that the ranks send what the plan says.
RankParts redistributed_rows(const Redistribution& change, const Shape& global, RankParts x) {
  const int ranks = int(x.size());
  RankParts y(x.size());
  run_ranks(ranks, [&](World& world) {
    Group& group = world.group();
    const size_t r = size_t(world.rank());
    const Shape from = local_shape(global, change.from, ranks, world.rank());
    const Shape to = local_shape(global, change.to, ranks, world.rank());
    y[r].assign(size_t(to.num_elements()), -7.0f);
    std::vector<std::byte> scratch(
        size_t(redistribute_scratch_bytes(change, global, DType::F32, ranks)));
    redistribute(group, change, global, {x[r].data(), DType::F32, from},
                 {y[r].data(), DType::F32, to}, scratch);
    const Traffic predicted = redistribution_traffic(group, change, global, DType::F32);
    EXPECT_EQ(group.traffic().sent_bytes, predicted.sent_bytes);
    EXPECT_EQ(group.traffic().received_bytes, predicted.received_bytes);
  });
  return y;
}

double inner_of_ranks(const RankParts& x, const RankParts& y) {
  double sum = 0.0;
  for (size_t rank = 0; rank < x.size(); ++rank) {
    for (size_t i = 0; i < x[rank].size(); ++i) sum += double(x[rank][i]) * double(y[rank][i]);
  }
  return sum;
}

float number_at(const std::vector<float>& x, const IndexRange& rows, int64_t image, int64_t row,
                int64_t i) {
  return x[size_t(((image * rows.count()) + row - rows.begin) * 3 + i)];
}

TEST(Halo, EachRankHasExactlyTheRowsThatItsWindowsRead) {
  for_each_halo([](int ranks, const Shape& global, const Placement& halo) {
    const RowWindow& window = halo.window;
    for (int rank = 0; rank < ranks; ++rank) {
      const IndexRange read = local_range(global[1], halo, ranks, rank);
      const int64_t made = window.positions(global[1]);
      int64_t first = global[1], last = -1;
      for (int64_t y = balanced_begin(made, ranks, rank);
           y < balanced_begin(made, ranks, rank) + balanced_count(made, ranks, rank); ++y) {
        for (int64_t k = 0; k < window.size; ++k) {
          const int64_t row = y * window.stride + k - window.padding;
          if (row < 0 || row >= global[1]) continue;
          first = std::min(first, row);
          last = std::max(last, row);
        }
      }
      ASSERT_EQ(read, (IndexRange{first, last + 1}));
    }
  });
}

TEST(Halo, HoldsTheRowsOfTheWholeImage) {
  for_each_halo([](int ranks, const Shape& global, const Placement& halo) {
    const Placement by_rows = Placement::shard(1);
    const RankParts x = random_rows(global, by_rows, ranks, 1);
    const RankParts y = redistributed_rows({by_rows, halo}, global, x);
    for (int rank = 0; rank < ranks; ++rank) {
      const IndexRange read = local_range(global[1], halo, ranks, rank);
      for (int owner = 0; owner < ranks; ++owner) {
        const IndexRange own = local_range(global[1], by_rows, ranks, owner);
        const IndexRange both = shared_by(own, read);
        for (int64_t row = both.begin; row < both.end; ++row) {
          for (int64_t i = 0; i < 2 * 3; ++i) {
            ASSERT_EQ(number_at(y[size_t(rank)], read, i / 3, row, i % 3),
                      number_at(x[size_t(owner)], own, i / 3, row, i % 3));
          }
        }
      }
    }
  });
}

TEST(Halo, TheReturnIsTheAdjoint) {
  for_each_halo([](int ranks, const Shape& global, const Placement& halo) {
    const Redistribution fetch{Placement::shard(1), halo};
    EXPECT_EQ(backward_of(fetch), (Redistribution{halo, Placement::shard(1)}));
    const RankParts x = random_rows(global, fetch.from, ranks, 2);
    const RankParts y_gradient = random_rows(global, halo, ranks, 3);
    const RankParts y = redistributed_rows(fetch, global, x);
    const RankParts x_gradient = redistributed_rows(backward_of(fetch), global, y_gradient);
    ASSERT_EQ(inner_of_ranks(y, y_gradient), inner_of_ranks(x, x_gradient));
  });
}

// A window of 3 rows and stride 1 borrows one row from each neighbour: at each of p - 1 borders two
// rows are sent.
TEST(Halo, SendsTwoRowsAtEachBorderOfThreeByThreeWindows) {
  const Shape global{5, 12, 7};
  for (const int ranks : {1, 2, 3, 4}) {
    int64_t elements = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto move =
          collective_of({Placement::shard(1), Placement::halo({3, 1, 1})}, global, ranks, rank);
      EXPECT_EQ(move.has_value(), ranks > 1);
      if (!move) continue;
      for (const int64_t sent : move->counts) elements += sent;
    }
    EXPECT_EQ(elements, 2 * (ranks - 1) * 5 * 7);
  }
  // Pools that read their own rows exchange nothing.
  EXPECT_FALSE(
      collective_of({Placement::shard(1), Placement::halo({2, 2, 0})}, global, 3, 0).has_value());
}

TEST(Halo, GradientsAreAddedInTheirDtype) {
  const Shape global{1, 2, 1};
  const Placement halo = Placement::halo({3, 1, 1});
  run_ranks(2, [&](World& world) {
    const bf16 addends[] = {bf16(1.0f), bf16(0.25f)};  // of row 0 and row 1
    bf16 own = bf16(0.0f);
    std::vector<std::byte> scratch(
        size_t(redistribute_scratch_bytes({halo, Placement::shard(1)}, global, DType::BF16, 2)));
    return_halo(world.group(), halo, global,
                {const_cast<bf16*>(addends), DType::BF16, Shape{1, 2, 1}},
                {&own, DType::BF16, Shape{1, 1, 1}}, scratch, CallSite::current());
    EXPECT_EQ(float(own), world.rank() == 0 ? 2.0f : 0.5f);
  });
}

}  // namespace
}  // namespace trireme
