#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "collectives/plan.h"

namespace trireme {

// Bytes that a rank sends in a collective with the algorithm that the runtime would choose. Caches
// its answers, because choosing an algorithm is expensive and layouts ask for few different
// collectives.
class CollectiveBytes {
 public:
  // `request.algorithm` is ignored. If the ranks share memory they are all on one node, else each
  // rank is on a node of its own.
  int64_t sent(const PlanRequest& request, int64_t element_bytes, bool canonical,
               bool shares_memory);

 private:
  // Collective, size, root, count, counts, recv_counts, bytes per element, canonical.
  using Asked = std::tuple<Collective, int, int, int64_t, std::vector<int64_t>,
                           std::vector<int64_t>, int64_t, bool>;
  struct Chosen {
    Algorithm algorithm = Algorithm::Auto;
    std::map<int, int64_t> sent;  // [rank]
  };

  std::map<Asked, Chosen> chosen_;
};

}  // namespace trireme
