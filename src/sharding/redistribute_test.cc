#include "sharding/redistribute.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "collectives/move_collective.h"
#include "comm/world.h"
#include "sharding/redistribution_fixture.h"

namespace trireme {
namespace {

using Kind = Placement::Kind;

// A tensor of all ranks, held by the test: parts[rank].
using Parts = std::vector<std::vector<float>>;

const std::vector<Placement> kPlacements = {Placement::replicate(), Placement::invariant(),
                                            Placement::partial(),   Placement::shard(0),
                                            Placement::shard(1),    Placement::shard(2)};

bool is_whole(Placement p) { return p.kind == Kind::Replicate || p.kind == Kind::Invariant; }

// The values are integers, so sums and products are exact.
Parts random_parts(const Shape& global, Placement p, int size, unsigned seed) {
  Parts parts(static_cast<size_t>(size));
  for (int r = 0; r < size; ++r) {
    std::mt19937 rng(seed * 100 + (is_whole(p) ? 0u : unsigned(r)));
    parts[size_t(r)].resize(size_t(local_shape(global, p, size, r).num_elements()));
    for (float& x : parts[size_t(r)]) x = float(int(rng() % 9) - 4);
  }
  return parts;
}

Parts apply(const Redistribution& change, const Shape& global, Parts x) {
  const int size = int(x.size());
  Parts y(x.size());
  run_ranks(size, [&](World& world) {
    const size_t r = size_t(world.rank());
    const Shape from = local_shape(global, change.from, size, world.rank());
    const Shape to = local_shape(global, change.to, size, world.rank());
    y[r].assign(size_t(to.num_elements()), -7.0f);
    std::vector<std::byte> scratch(
        size_t(redistribute_scratch_bytes(change, global, DType::F32, size)));
    redistribute(world.group(), change, global, {x[r].data(), DType::F32, from},
                 {y[r].data(), DType::F32, to}, scratch);
  });
  return y;
}

// Returns the value that the parts represent under a placement.
std::vector<float> value_of(const Parts& parts, const Shape& global, Placement p) {
  const int size = int(parts.size());
  if (is_whole(p)) return parts[0];
  std::vector<float> value(size_t(global.num_elements()), 0.0f);
  if (p.kind == Kind::Partial) {
    for (const auto& part : parts) {
      for (size_t i = 0; i < part.size(); ++i) value[i] += part[i];
    }
    return value;
  }
  for (int64_t i = 0; i < global.num_elements(); ++i) {
    std::array<int64_t, 3> index{i / (global[1] * global[2]), i / global[2] % global[1],
                                 i % global[2]};
    int owner = 0;
    const int64_t position = index[size_t(p.dim)];
    while (position >= balanced_begin(global[p.dim], size, owner) +
                           balanced_count(global[p.dim], size, owner)) {
      ++owner;
    }
    index[size_t(p.dim)] -= balanced_begin(global[p.dim], size, owner);
    const Shape local = local_shape(global, p, size, owner);
    value[size_t(i)] =
        parts[size_t(owner)][size_t((index[0] * local[1] + index[1]) * local[2] + index[2])];
  }
  return value;
}

// Returns <x, gradient>, summed over all ranks, or counted once if both are the same on all ranks.
double inner(const Parts& x, Placement p, const Parts& gradient) {
  double sum = 0;
  for (size_t r = 0; r < x.size(); ++r) {
    if (p.kind == Kind::Invariant && r > 0) break;
    for (size_t i = 0; i < x[r].size(); ++i) sum += double(x[r][i]) * double(gradient[r][i]);
  }
  return sum;
}

void for_each_change(const std::function<void(int, const Shape&, const Redistribution&)>& visit) {
  for (int size : {1, 2, 3, 4}) {
    for (const Shape& global : {Shape{4, 8, 12}, Shape{5, 3, 7}, Shape{1, 6, 2}}) {
      for (Placement from : kPlacements) {
        for (Placement to : kPlacements) {
          SCOPED_TRACE(fmt::format("{} ranks, {}: {} -> {}", size, global.to_string(),
                                   to_string(from), to_string(to)));
          visit(size, global, {from, to});
        }
      }
    }
  }
}

TEST(Redistribute, KeepsTheValueForEveryPairOfPlacements) {
  for_each_change([](int size, const Shape& global, const Redistribution& change) {
    const Parts x = random_parts(global, change.from, size, 1);
    const Parts y = apply(change, global, x);
    ASSERT_EQ(value_of(y, global, change.to), value_of(x, global, change.from));
    if (is_whole(change.to)) {
      for (const auto& part : y) ASSERT_EQ(part, y[0]);
    }
  });
}

TEST(Redistribute, BackwardIsTheAdjointForEveryPairOfPlacements) {
  for_each_change([](int size, const Shape& global, const Redistribution& change) {
    const Redistribution backward = backward_of(change);
    const Parts x = random_parts(global, change.from, size, 2);
    const Parts y_gradient = random_parts(global, backward.from, size, 3);
    const Parts y = apply(change, global, x);
    const Parts x_gradient = apply(backward, global, y_gradient);
    ASSERT_EQ(inner(y, change.to, y_gradient), inner(x, change.from, x_gradient));
  });
}

// Tested with every algorithm of a collective, and with the one that the group chooses.
TEST(Redistribute, MovesThePredictedBytesForEveryPairOfPlacements) {
  for_each_change([](int size, const Shape& global, const Redistribution& change) {
    run_ranks(size, [&](World& world) {
      Group& group = world.group();
      std::vector<float> x(
          size_t(local_shape(global, change.from, size, group.rank()).num_elements()));
      std::vector<float> y(
          size_t(local_shape(global, change.to, size, group.rank()).num_elements()));
      std::vector<std::byte> scratch(
          size_t(redistribute_scratch_bytes(change, global, DType::F32, size)));
      redistribute(group, change, global,
                   {x.data(), DType::F32, local_shape(global, change.from, size, group.rank())},
                   {y.data(), DType::F32, local_shape(global, change.to, size, group.rank())},
                   scratch);
      const Traffic moved = group.traffic();
      const Traffic predicted = redistribution_traffic(group, change, global, DType::F32);
      EXPECT_EQ(moved.sent_bytes, predicted.sent_bytes);
      EXPECT_EQ(moved.received_bytes, predicted.received_bytes);
      const auto move = collective_of(change, global, size, group.rank());
      if (!move || move->collective == Collective::AllToAll) return;
      for (const Algorithm algorithm : algorithms_of(move->collective, size)) {
        const Traffic before = group.traffic();
        const auto flat = [&](std::vector<float>& v) {
          return TensorRef{v.data(), DType::F32, Shape{int64_t(v.size())}};
        };
        std::vector<float> sum(x.size());
        const bool in_place = move->collective == Collective::AllReduce;
        group.run({.collective = move->collective,
                   .in = flat(in_place ? sum : x),
                   .out = flat(in_place ? sum : y),
                   .algorithm = algorithm,
                   .counts = move->counts});
        const int64_t element = size_of(DType::F32);
        PlanRequest request = move->request(size, group.rank());
        request.algorithm = algorithm;
        const bool is_shared = algorithm == Algorithm::Shared;
        const CommPlan plan = is_shared ? CommPlan{} : plan_collective(request).value();
        const PlanTraffic planned = is_shared ? shared_traffic(request, element) : traffic_of(plan);
        EXPECT_EQ(group.traffic().sent_bytes - before.sent_bytes, planned.sent * element)
            << name_of(algorithm);
        EXPECT_EQ(group.traffic().received_bytes - before.received_bytes,
                  planned.received * element);
        EXPECT_GE(group.scratch_bytes(), plan.tmp_count * element);
      }
    });
  });
}

TEST(Redistribute, MegatronsPairsAreRowsOfTheTable) {
  using P = Placement;
  // Megatron's f has identity forward and all_reduce backward; g has all_reduce forward and
  // identity backward.
  EXPECT_EQ(backward_of({P::invariant(), P::replicate()}),
            (Redistribution{P::partial(), P::invariant()}));
  EXPECT_EQ(backward_of({P::partial(), P::invariant()}),
            (Redistribution{P::invariant(), P::replicate()}));
  // Sequence parallelism: all_gather and reduce_scatter are the backward of each other.
  EXPECT_EQ(backward_of({P::shard(0), P::replicate()}),
            (Redistribution{P::partial(), P::shard(0)}));
  EXPECT_EQ(backward_of({P::partial(), P::shard(0)}),
            (Redistribution{P::shard(0), P::replicate()}));
}

}  // namespace
}  // namespace trireme
