#pragma once

#include <map>
#include <string>
#include <vector>

#include "autoparallel/op_groups.h"
#include "graph/op_half.h"
#include "schema/hardware.h"
#include "schema/model_spec.h"

namespace trireme {

// The time of the ops of one group on a rank of a layout, for one micro-batch, and the memory that
// they hold.
struct GroupPrice {
  double forward_s = 0.0;
  double backward_s = 0.0;             // B and W, without what is computed again
  double again_s = 0.0;                // the forward pass, where recomputation repeats it
  double saved_bytes = 0.0;            // from F to W
  double scratch_bytes = 0.0;          // of the whole unit, in this layout
  std::map<ParamId, double> elements;  // of this rank's parts
};

// Prices the groups of a unit with the work, the tables of memory and the kernel prices of a
// compiled plan. It keeps the answers, because meshes of many shapes lead to few layouts.
class GroupPrices {
 public:
  // `stated`: the unit as its function writes it; `layer`: its number, or -1 for the embedding and
  // the head. The references must live as long as this.
  GroupPrices(const Graph& stated, int64_t layer, const ModelSpec& model, const OpGroups& groups,
              const Hardware& hardware);

  // [group]
  const std::vector<GroupPrice>& of(const StageShape& layout);

 private:
  std::vector<GroupPrice> price(const StageShape& layout) const;

  Graph stated_;
  int64_t layer_;
  const ModelSpec& model_;
  const OpGroups& groups_;
  const Hardware& hardware_;
  std::map<StageShape, std::vector<GroupPrice>> known_;
};

}  // namespace trireme
