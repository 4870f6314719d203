#include "schema/mesh.h"

#include <gtest/gtest.h>

#include <set>

#include "schema/placement.h"

namespace trireme {
namespace {

template <typename Visit>
void for_each_mesh(int limit, Visit visit) {
  for (int tp = 1; tp <= limit; ++tp) {
    for (int cp = 1; tp * cp <= limit; ++cp) {
      for (int pp = 1; tp * cp * pp <= limit; ++pp) {
        for (int dp = 1; tp * cp * pp * dp <= limit; ++dp) {
          for (int ep = 1; ep <= dp * cp; ++ep) {
            const bool is_nested = cp % ep == 0 || ep % cp == 0;
            if (dp * cp % ep == 0 && is_nested) visit(Mesh{tp, cp, pp, dp, ep});
          }
        }
      }
    }
  }
}

TEST(Mesh, PositionsAndCoordsAreOneToOneAndTpIsFastest) {
  for_each_mesh(16, [](const Mesh& mesh) {
    for (int p = 0; p < mesh.size(); ++p) {
      const MeshCoords c = coords_of(mesh, p);
      ASSERT_EQ(position_of(mesh, c), p);
      if (p % mesh.tp != 0) {
        ASSERT_EQ(coords_of(mesh, p - 1).tp, c.tp - 1);
      }
      ASSERT_LT(c.ep, mesh.ep);
      ASSERT_LT(c.expert_dp, mesh.expert_dp());
    }
  });
}

TEST(Mesh, GroupsOfEveryAxisPartitionTheMeshAndHaveItsDegree) {
  using enum MeshAxis;
  for_each_mesh(16, [](const Mesh& mesh) {
    for (const auto& [axis, degree] :
         {std::pair{Tp, mesh.tp}, {Cp, mesh.cp}, {Pp, mesh.pp}, {Dp, mesh.dp}, {Ep, mesh.ep}}) {
      std::set<std::vector<int>> groups;
      for (int p = 0; p < mesh.size(); ++p) {
        const std::vector<int> group = positions_along(mesh, axis, p);
        ASSERT_EQ(int(group.size()), degree) << name_of(axis);
        ASSERT_EQ(std::count(group.begin(), group.end(), p), 1);
        groups.insert(group);
      }
      ASSERT_EQ(int(groups.size()) * degree, mesh.size()) << name_of(axis);
    }
  });
}

TEST(Mesh, PlacementKeepsTensorParallelRanksOnOneNodeHoweverRanksAreNumbered) {
  const Mesh mesh{.tp = 2, .dp = 4};
  // The launcher numbered ranks round robin.
  const std::vector<int> node_of = {0, 1, 0, 1, 0, 1, 0, 1};
  const std::vector<int> rank_at = place_on_nodes(node_of);
  for (int p = 0; p < mesh.size(); ++p) {
    for (const int other : positions_along(mesh, MeshAxis::Tp, p)) {
      EXPECT_EQ(node_of[size_t(rank_at[size_t(other)])], node_of[size_t(rank_at[size_t(p)])]);
    }
  }
}

TEST(Placement, DualIsItsOwnInverse) {
  for (Placement p : {Placement::replicate(), Placement::shard(2), Placement::partial(),
                      Placement::invariant()}) {
    EXPECT_EQ(dual(dual(p)), p);
  }
}

}  // namespace
}  // namespace trireme
