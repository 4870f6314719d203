#include "models/grad_addends.h"

#include <map>

namespace trireme {

GradAddends::GradAddends(Group& tp, const std::vector<ParamLayout>& layouts, const Frame& grads) {
  std::map<int, Group*> group_of = {{tp.size(), &tp}};
  for (const ParamLayout& layout : layouts) {
    const int addends = layout.grad_addends;
    if (addends == 1) continue;
    Group*& group = group_of[addends];
    if (group == nullptr) {
      neighbours_.push_back(tp.split(tp.rank() / addends, tp.rank(), tp.name() + "_kv"));
      group = neighbours_.back().get();
    }
    const TensorRef grad = grads.at(layout.name);
    gradients_.push_back({group, {grad.data, grad.dtype, Shape{grad.num_elements()}}});
  }
}

void GradAddends::sum() {
  for (const Gradient& gradient : gradients_) gradient.group->all_reduce(gradient.grad_N);
}

int64_t GradAddends::num_bytes() const {
  int64_t bytes = 0;
  for (const Gradient& gradient : gradients_) bytes += gradient.grad_N.bytes();
  return bytes;
}

}  // namespace trireme
