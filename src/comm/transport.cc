#include "comm/transport.h"

#include <cstring>

#include "comm/reduce.h"

namespace trireme {

void land(const Transfer& t, int64_t offset, const std::byte* received, int64_t bytes) {
  std::byte* target = t.target + offset;
  if (t.landing == Landing::Copy) {
    if (bytes > 0) std::memcpy(target, received, size_t(bytes));
    return;
  }
  const std::byte* operand = t.operand + offset;
  const bool operand_left = t.landing == Landing::ReduceRight;
  reduce_pair(t.dtype, t.op, target, operand_left ? operand : received,
              operand_left ? received : operand, bytes / size_of(t.dtype));
}

}  // namespace trireme
