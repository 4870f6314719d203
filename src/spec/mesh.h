#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace trireme {

// Ranks in the order [tp, cp, pp, dp], tp fastest: neighbours in rank communicate most. Experts
// (ep) lie inside dp x cp: of its cp + dp * cp_size places, ep is the fast part and expert_dp, over
// which the gradients of experts are reduced, the slow one.
struct Mesh {
  int tp = 1;
  int cp = 1;
  int pp = 1;
  int dp = 1;
  int ep = 1;

  int size() const { return tp * cp * pp * dp; }
  int expert_dp() const { return dp * cp / ep; }
  // Of the ranks that share the experts, how many differ in cp, and how many in dp for each of
  // these.
  int ep_cp() const { return ep < cp ? ep : cp; }
  int ep_dp() const { return ep / ep_cp(); }
  friend bool operator==(const Mesh&, const Mesh&) = default;
};

enum class MeshAxis : uint8_t { Tp, Cp, Pp, Dp, Ep };

std::string_view name_of(MeshAxis axis);  // "tp"

struct MeshCoords {
  int tp = 0;
  int cp = 0;
  int pp = 0;
  int dp = 0;
  int ep = 0;
  int expert_dp = 0;
};

// All that is wrong with the degrees; "" each: key, value, rule, remedy.
std::vector<std::string> problems_of(const Mesh& mesh);

MeshCoords coords_of(const Mesh& mesh, int position);
int position_of(const Mesh& mesh, const MeshCoords& coords);  // reads tp, cp, pp, dp

// Positions that differ from `position` along `axis` only, rising.
std::vector<int> positions_along(const Mesh& mesh, MeshAxis axis, int position);

// rank_at[position]: ranks sorted by node, so that the fast axes stay inside nodes however the
// launcher has numbered the ranks.
std::vector<int> place_on_nodes(std::span<const int> node_of);

}  // namespace trireme
