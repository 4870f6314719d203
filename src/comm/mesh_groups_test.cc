#include "comm/mesh_groups.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

// Tested on every mesh of up to 8 ranks: a sum along an axis is the sum over positions_along, for
// every numbering of the ranks over nodes.
TEST(MeshGroups, EveryGroupHoldsTheRanksAlongItsAxis) {
  for (const Mesh& mesh :
       {Mesh{1, 1, 1, 1, 1}, Mesh{2, 1, 1, 1, 1}, Mesh{1, 2, 1, 3, 2}, Mesh{2, 1, 2, 2, 1},
        Mesh{2, 2, 1, 2, 4}, Mesh{1, 1, 4, 2, 2}, Mesh{1, 1, 1, 8, 4}, Mesh{4, 2, 1, 1, 2},
        Mesh{2, 2, 1, 2, 4, {MeshAxis::Dp, MeshAxis::Pp, MeshAxis::Cp, MeshAxis::Tp}},
        Mesh{2, 1, 2, 2, 1, {MeshAxis::Pp, MeshAxis::Tp, MeshAxis::Dp, MeshAxis::Cp}}}) {
    run_ranks(mesh.size(), {.nodes = 2}, [&](World& world) {
      MeshGroups groups(world, mesh);
      ASSERT_EQ(groups.rank_at(groups.position()), world.rank());
      for (MeshAxis axis : {MeshAxis::Tp, MeshAxis::Cp, MeshAxis::Pp, MeshAxis::Dp, MeshAxis::Ep}) {
        int64_t sum = 1 << groups.position();
        groups.group(axis).all_reduce({&sum, DType::I64, Shape{1}});
        ASSERT_EQ(groups.group(axis).rank(), groups.coords().along(axis));
        int64_t expected = 0;
        for (int p : positions_along(mesh, axis, groups.position())) expected += 1 << p;
        ASSERT_EQ(sum, expected) << name_of(axis);
      }
    });
  }
}

TEST(MeshGroups, TrafficIsCountedUnderTheAxis) {
  run_ranks(4, [](World& world) {
    MeshGroups groups(world, {.tp = 2, .dp = 2});
    std::vector<float> x(1000);
    const TensorRef ref{x.data(), DType::F32, Shape{1000}};
    groups.tp().all_reduce(ref, ReduceOp::Sum, Algorithm::Ring);
    groups.dp().all_reduce(ref, ReduceOp::Sum, Algorithm::Ring);
    for (const auto& [name, traffic] : groups.traffic()) {
      if (name == "tp" || name == "dp") {
        EXPECT_EQ(traffic.sent_bytes, 4000) << name;  // 2 M (N-1)/N
        EXPECT_EQ(traffic.sent_messages, 2) << name;
      } else if (name != "world") {
        EXPECT_EQ(traffic.sent_bytes, 0) << name;
      }
    }
  });
}

}  // namespace
}  // namespace trireme
