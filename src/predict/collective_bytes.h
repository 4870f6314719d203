#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "collectives/plan.h"

namespace trireme {

// What a rank sends in a collective by the algorithm that the runtime would choose. Remembers what
// it was asked: a choice looks at the plans of up to all ranks, and layouts ask for few.
class CollectiveBytes {
 public:
  // Ranks that share memory reach each other's buffers. The request's algorithm is not read; all
  // ranks are on one node, or each on its own.
  int64_t sent(const PlanRequest& request, int64_t element_bytes, bool canonical,
               bool shares_memory);

 private:
  // Collective, size, root, count, counts, recv_counts, bytes of an element, canonical.
  using Asked = std::tuple<Collective, int, int, int64_t, std::vector<int64_t>,
                           std::vector<int64_t>, int64_t, bool>;
  struct Chosen {
    Algorithm algorithm = Algorithm::Auto;
    std::map<int, int64_t> sent;  // [rank] bytes
  };

  std::map<Asked, Chosen> chosen_;
};

}  // namespace trireme
