#include "schema/mesh.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
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

template <typename Visit>
void for_each_order(Mesh mesh, Visit visit) {
  mesh.order = {MeshAxis::Tp, MeshAxis::Cp, MeshAxis::Pp, MeshAxis::Dp};
  do {
    visit(mesh);
  } while (std::next_permutation(mesh.order.begin(), mesh.order.end()));
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

// Ranks of every axis in every order: the first neighbours differ in the innermost axis.
TEST(Mesh, EveryOrderNumbersEachPlaceOnceAndItsFirstAxisIsInnermost) {
  for_each_mesh(8, [](const Mesh& usual) {
    for_each_order(usual, [](const Mesh& mesh) {
      SCOPED_TRACE(to_string(mesh.order));
      for (int p = 0; p < mesh.size(); ++p) ASSERT_EQ(position_of(mesh, coords_of(mesh, p)), p);
      int stride = 1;
      for (const MeshAxis axis : mesh.order) {
        ASSERT_EQ(stride_of(mesh, axis), stride);
        stride *= mesh.degree(axis);
      }
    });
    ASSERT_TRUE(are_numbered_alike(usual, usual));
  });
}

// Places of the pipeline with their own numbers of ranks follow each other. Together the groups
// along dp cover every rank once, and those along pp have the ranks of all places.
TEST(Mesh, PlacesWithTheirOwnDegreesFollowEachOther) {
  using enum MeshAxis;
  for (const std::vector<PlaceDegrees>& places : std::vector<std::vector<PlaceDegrees>>{
           {{1, 2}, {1, 1}}, {{2, 1}, {2, 2}}, {{1, 4}, {2, 1}, {4, 2}}, {{2, 6}, {3, 3}}}) {
    for (const MeshOrder& order : {MeshOrder{Tp, Cp, Dp, Pp}, MeshOrder{Dp, Cp, Tp, Pp}}) {
      Mesh mesh{.tp = 12, .cp = 2, .pp = int(places.size()), .dp = 12};
      mesh.order = order;
      mesh.places = places;
      int ranks = 0;
      for (const PlaceDegrees& place : places) ranks += place.tp * place.dp;
      ASSERT_EQ(mesh.size(), 2 * ranks);
      int before = 0;
      for (int p = 0; p < mesh.size(); ++p) {
        const MeshCoords at = coords_of(mesh, p);
        ASSERT_EQ(position_of(mesh, at), p);
        ASSERT_GE(at.pp, before);
        ASSERT_LT(at.dp, mesh.dp_at(at.pp));
        ASSERT_LT(at.tp, mesh.tp_at(at.pp));
        before = at.pp;
        const std::pair<MeshAxis, int> shared[] = {{Dp, mesh.dp_at(at.pp)},
                                                   {Tp, mesh.tp_at(at.pp)}};
        for (const auto& [axis, degree] : shared) {
          const std::vector<int> of_place = positions_along(mesh, axis, p);
          ASSERT_EQ(int(of_place.size()), degree);
          for (const int other : of_place) ASSERT_EQ(coords_of(mesh, other).pp, at.pp);
          if (degree == 1) continue;
          ASSERT_EQ(of_place[1] - of_place[0], stride_of(mesh, axis, at.pp));
        }
        const std::vector<int> pipeline = positions_along(mesh, Pp, p);
        ASSERT_EQ(int(pipeline.size()), ranks);
        ASSERT_EQ(pipeline[size_t(rank_along_pp(mesh, at))], p);
      }
    }
  }
}

void expect_groups_of(const Mesh& mesh) {
  using enum MeshAxis;
  for (const MeshAxis axis : {Tp, Cp, Pp, Dp, Ep}) {
    std::set<std::vector<int>> groups;
    for (int p = 0; p < mesh.size(); ++p) {
      const std::vector<int> group = positions_along(mesh, axis, p);
      ASSERT_EQ(int(group.size()), mesh.degree(axis)) << name_of(axis);
      ASSERT_EQ(std::count(group.begin(), group.end(), p), 1);
      std::set<int> ranks;
      for (const int other : group) ranks.insert(coords_of(mesh, other).along(axis));
      ASSERT_EQ(ranks.size(), group.size()) << name_of(axis);
      ASSERT_EQ(*ranks.rbegin(), mesh.degree(axis) - 1) << name_of(axis);
      groups.insert(group);
    }
    ASSERT_EQ(int(groups.size()) * mesh.degree(axis), mesh.size()) << name_of(axis);
  }
}

TEST(Mesh, GroupsOfEveryAxisPartitionTheMeshAndHaveItsDegree) {
  for_each_mesh(16, [](const Mesh& mesh) { expect_groups_of(mesh); });
  for_each_mesh(8, [](const Mesh& usual) {
    for_each_order(usual, [](const Mesh& mesh) {
      SCOPED_TRACE(to_string(mesh.order));
      expect_groups_of(mesh);
    });
  });
}

TEST(MeshOrder, ReadsWhatItPrintsAndRefusesEveryOtherListOfAxes) {
  for_each_order({}, [](const Mesh& mesh) {
    const Result<MeshOrder> again = parse_mesh_order(to_string(mesh.order));
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(*again, mesh.order);
  });
  const auto refusal = [](std::string_view text) {
    const Result<MeshOrder> order = parse_mesh_order(text);
    return order.ok() ? "" : order.error().message;
  };
  EXPECT_EQ(refusal("tp,cp,pp"), "does not name dp");
  EXPECT_EQ(refusal("tp,cp,pp,tp"), "names tp twice");
  EXPECT_EQ(refusal("tp,cp,ep,dp,pp"), "names ep, whose ranks are those of cp and dp");
  EXPECT_EQ(refusal("tp,sp,dp,pp"), "names the unknown axis \"sp\"");
  for (const char* text : {"", ",", "tp,cp,pp,dp,", "tp, cp, pp, dp", "tp-cp-pp-dp"}) {
    EXPECT_NE(refusal(text), "") << text;
  }
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
