#include "models/grad_addends.h"

#include <map>

namespace trireme {

namespace {

std::vector<GradAddends::Part> parts_of(const std::vector<ParamLayout>& layouts,
                                        const Frame& grads) {
  std::vector<GradAddends::Part> parts;
  for (const ParamLayout& layout : layouts) {
    const TensorRef grad = grads.at(layout.name);
    parts.push_back({layout.grad_addends, {grad.data, grad.dtype, Shape{grad.num_elements()}}});
  }
  return parts;
}

}  // namespace

GradAddends::GradAddends(Group& tp, const std::vector<ParamLayout>& layouts, const Frame& grads)
    : GradAddends(tp, parts_of(layouts, grads)) {}

GradAddends::GradAddends(Group& tp, const std::vector<Part>& parts) {
  std::map<int, Group*> group_of = {{tp.size(), &tp}};
  for (const Part& part : parts) {
    if (part.addends == 1) continue;
    Group*& group = group_of[part.addends];
    if (group == nullptr) {
      neighbours_.push_back(tp.split(tp.rank() / part.addends, tp.rank(), tp.name() + "_kv"));
      group = neighbours_.back().get();
    }
    gradients_.push_back({group, part.grad_N});
  }
}

void GradAddends::sum() {
  for (const Gradient& gradient : gradients_)
    gradient.group->all_reduce(gradient.grad_N, ReduceOp::Sum, Algorithm::Canonical);
}

Traffic GradAddends::traffic() const {
  Traffic sum;
  for (const std::unique_ptr<Group>& group : neighbours_) sum += group->traffic();
  return sum;
}

int64_t GradAddends::num_bytes() const {
  int64_t bytes = 0;
  for (const Gradient& gradient : gradients_) bytes += gradient.grad_N.bytes();
  return bytes;
}

}  // namespace trireme
