#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "collectives/collective.h"

namespace trireme {

// All ranks of a collective send this together, in closed form: N ranks, a full vector of M
// elements, P = 2^K the largest power of two that is at most N, R = N - P.
struct ClosedForm {
  std::string_view text;  // "2 (N-1) M"
  int64_t elements = 0;
};

// Nothing where the total has no form that fits on a line, because it depends on the root and on
// the sizes of parts.
std::optional<ClosedForm> closed_form(Collective collective, Algorithm algorithm, int num_ranks,
                                      int64_t count);

}  // namespace trireme
