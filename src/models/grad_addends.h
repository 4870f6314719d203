#pragma once

#include <memory>
#include <vector>

#include "comm/group.h"
#include "nn/frame.h"
#include "spec/model_layout.h"

namespace trireme {

// The gradients of which each tp rank has an addend (ParamLayout::grad_addends): those of norms on
// parts of the tokens, and of kv heads that several ranks hold.
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
  GradAddends(Group& tp, const std::vector<Part>& parts);

  // Once per step, between the last W and Step.
  void sum();
  // So far by groups that are parts of tp; tp itself counts its own.
  Traffic traffic() const;
  // All-reduced by this rank in one call of sum.
  int64_t num_bytes() const;

 private:
  struct Gradient {
    Group* group;
    TensorRef grad_N;
  };
  std::vector<std::unique_ptr<Group>> neighbours_;  // parts of tp, where fewer than all share
  std::vector<Gradient> gradients_;
};

}  // namespace trireme
