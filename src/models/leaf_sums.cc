#include "models/leaf_sums.h"

#include <algorithm>

#include "base/check.h"
#include "memory/leaf_sums.h"

namespace trireme {

LeafSums::LeafSums(const StageTables& tables, const UnitKind& kind, const StageUnit& unit,
                   size_t op, int64_t leaves)
    : leaves_(leaves) {
  for (const ParamId id : kind.graph.ops[op].params) {
    const std::string name = unit.param_prefix + kind.graph.params[size_t(id)].name;
    if (!tables.grads.contains(name)) continue;  // never trained
    const TensorSpec& grad = tables.grads.at(name);
    grads_.push_back({Base::Grads, grad.dtype, grad.offset, Shape{grad.shape.num_elements()}});
  }
  if (leaves == 1) return;
  for (int level = 0; level < num_leaf_levels(leaves); ++level) {
    const TensorSpec& scratch = tables.scratch.at(leaf_sum_name(level));
    for (const TensorAt& grad : grads_) {
      const int64_t end = grad.offset - grads_.front().offset + grad.shape[0] * size_of(grad.dtype);
      TRIREME_CHECK(grad.offset >= grads_.front().offset && end <= scratch.bytes(),
                    "the gradients of an op lie one behind the other");
    }
    right_bytes_.push_back(scratch.offset);
  }
}

SlotMemory LeafSums::in_scratch(const SlotMemory& m, int level) const {
  SlotMemory right = m;
  const int64_t first = grads_.empty() ? 0 : grads_.front().offset;
  right.bases[size_t(Base::Grads)] =
      m.bases[size_t(Base::Scratch)] + right_bytes_[size_t(level)] - first;
  return right;
}

void LeafSums::join(Ctx& ctx, const SlotMemory& right, const SlotMemory& left) const {
  for (const TensorAt& grad : grads_) ctx.kernels.add(ctx.stream, {right(grad), left(grad)});
}

}  // namespace trireme
