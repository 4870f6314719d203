#pragma once

#include <memory>
#include <vector>

#include "comm/group.h"

namespace trireme {

// Sums the gradients of the two uses of a tied table where the ranks of two places of a pipeline
// hold it (compile/tied_join.h), seen from one of them. A rank sums each run of elements that it
// shares with a rank of the other place in a pair with this one, all runs at once. Where copies of
// a part share out its sum, they gather it afterwards.
class TiedSum {
 public:
  struct Run {
    std::unique_ptr<Group> pair;
    int64_t first = 0;  // element of the gradient that the rank owns
    int64_t count = 0;
  };
  // Ranks that gather what they own, and the elements of each. No group: the rank holds no end.
  struct Copies {
    std::unique_ptr<Group> group;
    std::vector<int64_t> counts;
  };

  TiedSum(std::vector<Run> runs, Copies copies, Algorithm algorithm);

  // Makes the groups ready. The gradient is all that the rank owns of the table.
  void reserve(const TensorRef& grad);
  void run(const TensorRef& grad);

  Traffic traffic() const;         // of the pairs
  Traffic gather_traffic() const;  // of the copies
  int64_t scratch_bytes() const;

 private:
  CollectiveArgs sum(const Run& run, const TensorRef& grad) const;
  CollectiveArgs gather(const TensorRef& grad) const;

  std::vector<Run> runs_;
  Copies copies_;
  Algorithm algorithm_;
  std::vector<Work> works_;  // [run]
};

}  // namespace trireme
