#pragma once

#include <memory>
#include <vector>

#include "comm/group.h"
#include "nn/frame.h"
#include "spec/model_layout.h"

namespace trireme {

// The gradients of which the ranks of an axis have addends (ParamLayout): over tp those of norms on
// parts of the tokens, of kv heads that several ranks hold and of routers, over cp all.
class GradAddends {
 public:
  // Called by all tp ranks together; `layouts` are this rank's, and the frame's memory and the
  // group outlive this.
  GradAddends(Group& tp, const std::vector<ParamLayout>& layouts, const Frame& grads);
  // The same where gradients, or shards of them, do not lie in one table; empty parts are left out.
  struct Part {
    int addends = 1;
    TensorRef grad_N;
  };
  enum class Holders { Neighbours, EveryNth };  // that have the addends, where not all have one
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
