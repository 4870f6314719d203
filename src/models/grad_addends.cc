#include "models/grad_addends.h"

#include <map>

namespace trireme {

GradAddends::GradAddends(Group& axis, const std::vector<Part>& parts, Holders holders) {
  std::map<int, Group*> group_of = {{axis.size(), &axis}};
  for (const Part& part : parts) {
    if (part.addends == 1) continue;
    Group*& group = group_of[part.addends];
    if (group == nullptr) {
      const int color = holders == Holders::Neighbours ? axis.rank() / part.addends
                                                       : axis.rank() % (axis.size() / part.addends);
      parts_.push_back(axis.split(color, axis.rank(), axis.name() + "_holders"));
      group = parts_.back().get();
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
  for (const std::unique_ptr<Group>& group : parts_) sum += group->traffic();
  return sum;
}

}  // namespace trireme
