#pragma once

#include <cstring>

#include "comm/group.h"
#include "tensor/matrix.h"

namespace trireme {

// A block goes from this rank to the next one of a ring, and that of the rank before comes here,
// beside the computation. In a ring of one, a rank is its own neighbour.
class RingStep {
 public:
  static constexpr int kKeysTag = 0;
  static constexpr int kGradientsTag = 1;

  RingStep(Group& ring, const MatrixRef& out, const MatrixRef& in, int tag) {
    const int next = (ring.rank() + 1) % ring.size();
    const int before = (ring.rank() + ring.size() - 1) % ring.size();
    if (next == ring.rank()) {
      std::memcpy(in.data, out.data, size_t(flat(out).bytes()));
      return;
    }
    send_ = ring.start_send(flat(out), next, tag);
    recv_ = ring.start_recv(flat(in), before, tag);
  }
  void wait() {
    recv_.wait();
    send_.wait();
  }

 private:
  Work send_;
  Work recv_;
};

}  // namespace trireme
