#pragma once

#include <string>
#include <vector>

#include "autoparallel/group_price.h"
#include "autoparallel/op_groups.h"
#include "autoparallel/unit_moves.h"

namespace trireme {

// The units of one kind: all layers that compute the same, the embedding, or the head. It has what
// the prices of every setting are made from, and keeps those that several settings share.
class PricedUnit {
 public:
  // `layer` is a layer of this kind, or -1 for the embedding and the head. `model` and `hardware`
  // must live as long as this.
  PricedUnit(const Graph& stated, int64_t layer, const ModelSpec& model, const StageShape& base,
             const Hardware& hardware)
      : model_(model),
        base_(base),
        hardware_(hardware),
        groups_(stated, base),
        prices_(stated, layer, model, groups_, hardware),
        moves_(groups_.graph(), model, base.compute, hardware) {}
  PricedUnit(const PricedUnit&) = delete;
  PricedUnit& operator=(const PricedUnit&) = delete;

  const std::string& name() const { return groups_.graph().unit; }
  const ModelSpec& model() const { return model_; }
  const Hardware& hardware() const { return hardware_; }
  const OpGroups& groups() const { return groups_; }
  // Returns the fields of a layout that no role sets.
  StageShape base_with(Recompute recompute) const {
    StageShape base = base_;
    base.recompute = recompute;
    return base;
  }

  // Returns the price of every group on a rank of this layout, [group].
  const std::vector<GroupPrice>& prices_on(const StageShape& layout) { return prices_.of(layout); }
  UnitMoves& moves_on(const StageMesh& mesh) {
    moves_.set_mesh(mesh);
    return moves_;
  }

 private:
  const ModelSpec& model_;
  StageShape base_;
  const Hardware& hardware_;
  OpGroups groups_;
  GroupPrices prices_;
  UnitMoves moves_;
};

}  // namespace trireme
