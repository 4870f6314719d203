#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "schema/mesh_order.h"

namespace trireme {

struct ParallelConfig;

// The degrees of one place of a pipeline.
struct PlaceDegrees {
  int tp = 1;
  int dp = 1;
  friend bool operator==(const PlaceDegrees&, const PlaceDegrees&) = default;
};

// Ranks along the axes tp, cp, pp and dp, numbered in the order of these axes. In the usual order
// tp is innermost, because neighbouring ranks communicate most. Experts (ep) are within dp x cp: of
// its places cp + dp * cp_size, ep is the fast part. expert_dp is the slow part; over it the
// gradients of experts are reduced.
struct Mesh {
  int tp = 1;
  int cp = 1;
  int pp = 1;
  int dp = 1;
  int ep = 1;
  MeshOrder order = kUsualOrder;
  // [pp] the degrees of the places of the pipeline where they differ; empty: tp and dp everywhere.
  // If they differ, those of each place divide tp and dp, pp is the outermost axis, and ep divides
  // the ranks of dp and cp of every place. dp is then the number of lanes into which the batch is
  // split. A rank has several lanes where there are fewer ranks.
  std::vector<PlaceDegrees> places = {};

  int size() const;
  bool is_uneven() const { return !places.empty(); }
  PlaceDegrees at(int place) const {
    return places.empty() ? PlaceDegrees{tp, dp} : places[size_t(place)];
  }
  int tp_at(int place) const { return at(place).tp; }
  int dp_at(int place) const { return at(place).dp; }
  int lanes_at(int place) const { return dp / dp_at(place); }
  int degree(MeshAxis axis) const;
  int expert_dp() const { return dp * cp / ep; }
  // How many of the ranks that share the experts differ in cp, and how many differ in dp for each
  // of these.
  int ep_cp() const { return ep < cp ? ep : cp; }
  int ep_dp() const { return ep / ep_cp(); }
  friend bool operator==(const Mesh&, const Mesh&) = default;
};

// Returns the mesh of a valid configuration.
Mesh mesh_of(const ParallelConfig& parallel);

// True if parallel.stage_dp or parallel.stage_tp states degrees of places.
bool states_places(const ParallelConfig& parallel);
// False if one of them has no numbers, or not one for every place of the pipeline.
bool has_possible_places(const ParallelConfig& parallel);
// Returns the number of ranks of a configuration. Places that are not possible are ignored.
int64_t num_ranks(const ParallelConfig& parallel);
// Returns the keys that state the degrees of places as they are written:
// "stage_tp = \"2,1\" and stage_dp = \"1,2\"".
std::string places_text(const ParallelConfig& parallel);

// Returns the degrees whose product is the number of ranks: "tp 2 x cp 1 x pp 2 x dp 4", and with
// places of their own degrees "cp 1 x tp x dp (2 x 4 + 1 x 2)".
std::string degrees_text(const Mesh& mesh);

struct MeshCoords {
  int tp = 0;
  int cp = 0;
  int pp = 0;
  int dp = 0;
  int ep = 0;
  int expert_dp = 0;

  // Returns the coordinate along an axis. It is the rank in the group along this axis.
  int along(MeshAxis axis) const;
};

// These two functions are the only ones that map ranks to places in the mesh.
MeshCoords coords_of(const Mesh& mesh, int position);
int position_of(const Mesh& mesh, const MeshCoords& coords);  // reads tp, cp, pp, dp

// Returns how many positions apart neighbours along tp, cp, pp or dp are at a place of the
// pipeline. If places differ, those along pp are the first ranks of the first two places.
int stride_of(const Mesh& mesh, MeshAxis axis, int place = 0);

// True if both meshes, which differ at most in their order, give every rank the same place.
bool are_numbered_alike(const Mesh& a, const Mesh& b);

// Returns the positions that differ from `position` only along `axis`, rising. If places differ,
// those along pp differ along tp and dp, too: all ranks of the pipeline.
std::vector<int> positions_along(const Mesh& mesh, MeshAxis axis, int position);
// Returns the rank in the group along pp: the place, or where places differ, the rank among
// positions_along.
int rank_along_pp(const Mesh& mesh, const MeshCoords& coords);

// Returns rank_at[position]. Ranks are sorted by node, so the inner axes stay inside nodes,
// whatever the order in which the launcher has numbered the ranks.
std::vector<int> place_on_nodes(std::span<const int> node_of);

}  // namespace trireme
