#pragma once

#include <vector>

#include "memory/stage_tables.h"
#include "memory/stage_units.h"
#include "nn/ctx.h"
#include "nn/slot_memory.h"

namespace trireme {

// W of one op. It is made leaf by leaf (StageShape::leaves), and the gradients of the leaves are
// joined along a binary tree over their numbers. A right operand lies in scratch.
class LeafSums {
 public:
  LeafSums(const StageTables& tables, const UnitKind& kind, const StageUnit& unit, size_t op,
           int64_t leaves);

  // Calls make(memory) for every leaf: it overwrites the gradients of the op. With one leaf, `make`
  // may also add to them.
  template <typename Make>
  void operator()(Ctx& ctx, const SlotMemory& m, const Make& make) const {
    add_up(ctx, 0, int(right_bytes_.size()), m, make);
  }

 private:
  template <typename Make>
  void add_up(Ctx& ctx, int64_t first, int level, const SlotMemory& m, const Make& make) const {
    if (level == 0) {
      SlotMemory of_leaf = m;
      of_leaf.leaf = {first, leaves_};
      return make(of_leaf);
    }
    add_up(ctx, first, level - 1, m, make);
    const int64_t behind = first + (int64_t{1} << (level - 1));
    if (behind >= leaves_) return;
    const SlotMemory right = in_scratch(m, level - 1);
    add_up(ctx, behind, level - 1, right, make);
    join(ctx, right, m);
  }
  SlotMemory in_scratch(const SlotMemory& m, int level) const;
  void join(Ctx& ctx, const SlotMemory& right, const SlotMemory& left) const;

  int64_t leaves_;
  std::vector<TensorAt> grads_;       // of the op's parameters
  std::vector<int64_t> right_bytes_;  // [level]: from the beginning of scratch to a right operand
};

}  // namespace trireme
