#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace trireme {

// Ranks in the order [tp, cp, pp, dp] with tp fastest: neighbouring ranks communicate most. Experts
// (ep) are within dp x cp: of its places cp + dp * cp_size, ep is the fast part. expert_dp is the
// slow part; over it the gradients of experts are reduced.
struct Mesh {
  int tp = 1;
  int cp = 1;
  int pp = 1;
  int dp = 1;
  int ep = 1;

  int size() const { return tp * cp * pp * dp; }
  int expert_dp() const { return dp * cp / ep; }
  // How many of the ranks that share the experts differ in cp, and how many differ in dp for each
  // of these.
  int ep_cp() const { return ep < cp ? ep : cp; }
  int ep_dp() const { return ep / ep_cp(); }
  friend bool operator==(const Mesh&, const Mesh&) = default;
};

enum class MeshAxis : uint8_t { Tp, Cp, Pp, Dp, Ep };

std::string_view name_of(MeshAxis axis);  // such as "tp"

struct MeshCoords {
  int tp = 0;
  int cp = 0;
  int pp = 0;
  int dp = 0;
  int ep = 0;
  int expert_dp = 0;
};

MeshCoords coords_of(const Mesh& mesh, int position);
int position_of(const Mesh& mesh, const MeshCoords& coords);  // reads tp, cp, pp, dp

// Returns the positions that differ from `position` only along `axis`, rising.
std::vector<int> positions_along(const Mesh& mesh, MeshAxis axis, int position);

// Returns rank_at[position]. Ranks are sorted by node, so the fast axes stay inside nodes, whatever
// the order in which the launcher has numbered the ranks.
std::vector<int> place_on_nodes(std::span<const int> node_of);

}  // namespace trireme
