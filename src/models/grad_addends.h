#pragma once

#include <memory>
#include <vector>

#include "comm/group.h"
#include "graph/param_layout.h"
#include "graph/param_table.h"
#include "nn/frame.h"

namespace trireme {

// The gradients of which the ranks of an axis have addends (ParamLayout): over tp those of norms on
// parts of the tokens, of kv heads that several ranks hold and of routers, over cp all.
class GradAddends {
 public:
  // A gradient, or a shard of one.
  struct Part {
    int addends = 1;
    TensorRef grad_N;
  };
  enum class Holders { Neighbours, EveryNth };  // that have the addends, where not all have one
  // Called by all ranks of the axis together; the group and the gradients outlive this. Parts of
  // one addend are left out.
  GradAddends(Group& axis, const std::vector<Part>& parts, Holders holders = Holders::Neighbours);

  // Once per step, between the last W and Step.
  void sum();
  // So far by groups that are parts of the axis, which counts its own.
  Traffic traffic() const;

 private:
  struct Gradient {
    Group* group;
    TensorRef grad_N;
  };
  std::vector<std::unique_ptr<Group>> parts_;  // of the axis, where fewer than all share
  std::vector<Gradient> gradients_;
};

}  // namespace trireme
