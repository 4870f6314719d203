#pragma once

#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "autoparallel/stage_mesh.h"
#include "autoparallel/value_move.h"
#include "graph/graph.h"
#include "schema/hardware.h"
#include "schema/model_spec.h"

namespace trireme {

// Seconds of a redistribution in a micro-batch, and the part of them that belongs to F.
struct MoveCost {
  double total_s = 0.0;
  double forward_s = 0.0;
};

// What makes a rank redistribute a value more than once in a micro-batch.
struct MoveAgain {
  bool runs_again = false;  // recomputation repeats the op that reads the value
  bool read_again = false;  // B or W of this op reads the whole value, so it gathers it again
};

// The collectives of one unit on one mesh: redistributions of its values, and sums and gathers of
// its parameters. It keeps the answers, because all settings of the unit on a mesh ask for the
// same.
class UnitMoves {
 public:
  // `graph` is that of OpGroups, `compute` the dtype of its values. The references must live as
  // long as this.
  UnitMoves(const Graph& graph, const ModelSpec& model, DType compute, const Hardware& hardware)
      : graph_(graph), model_(model), compute_(compute), hardware_(hardware) {}

  // Answers for this mesh from now on. Drops the answers for another one.
  void set_mesh(const StageMesh& mesh);

  // Returns the cost of a value and of its gradient; kImpossible seconds if it cannot be
  // redistributed so.
  MoveCost cost(ValueId value, const MeshPlacement& from, const MeshPlacement& to,
                const MoveAgain& again);

  struct VectorSeconds {
    double half_s = 0.0;  // of an all-gather or a reduce-scatter
    double sum_s = 0.0;   // of an all-reduce
  };
  // Returns the seconds of the collectives of a vector over one dim of the mesh, 0 or 1.
  const VectorSeconds& of_vector(double bytes, size_t dim);

 private:
  double extent(const Dim& dim) const;
  double bytes_of(const Value& value) const;
  std::array<double, 2> both_ways(ValueId value, const MeshPlacement& from,
                                  const MeshPlacement& to) const;

  const Graph& graph_;
  const ModelSpec& model_;
  DType compute_;
  const Hardware& hardware_;
  StageMesh mesh_;
  // [value, from, to] forward and backward
  std::map<std::tuple<ValueId, MeshPlacement, MeshPlacement>, std::array<double, 2>> of_value_;
  std::map<std::pair<size_t, double>, VectorSeconds> of_vector_;  // [dim, bytes]
};

}  // namespace trireme
