#include "comm/left_out.h"

#include <cstring>

#include "collectives/plan.h"

namespace trireme {
namespace {

// Number of elements before this rank's part, and in it.
struct Own {
  int64_t begin = 0, count = 0;
};
Own own_part(std::span<const int64_t> counts, int64_t total, int rank, int size) {
  Own own;
  const auto part = [&](int r) {
    return counts.empty() ? balanced_count(total, size, r) : counts[size_t(r)];
  };
  for (int r = 0; r < rank; ++r) own.begin += part(r);
  own.count = part(rank);
  return own;
}

// Copies `count` elements of `in` at `from` to `out` at `begin`, and sets the rest of `out` to
// zero. `in` and `out` may be the same memory.
void keep(const TensorRef& in, int64_t from, const TensorRef& out, int64_t begin, int64_t count) {
  const int64_t element = size_of(out.dtype);
  std::byte* to = static_cast<std::byte*>(out.data);
  if (count > 0) {
    std::memmove(to + begin * element, static_cast<const std::byte*>(in.data) + from * element,
                 size_t(count * element));
  }
  const int64_t rest = out.num_elements() - begin - count;
  if (begin > 0) std::memset(to, 0, size_t(begin * element));
  if (rest > 0) std::memset(to + (begin + count) * element, 0, size_t(rest * element));
}

}  // namespace

void leave_out(const CollectiveArgs& a, int rank, int size) {
  switch (a.collective) {
    case Collective::AllGather: {
      const Own own = own_part(a.counts, a.out.num_elements(), rank, size);
      return keep(a.in, 0, a.out, own.begin, own.count);
    }
    case Collective::ReduceScatter: {
      const Own own = own_part(a.counts, a.in.num_elements(), rank, size);
      return keep(a.in, own.begin, a.out, 0, own.count);
    }
    case Collective::AllToAll: {
      const Own sent = own_part(a.counts, a.in.num_elements(), rank, size);
      const Own got = own_part(a.recv_counts, a.out.num_elements(), rank, size);
      return keep(a.in, sent.begin, a.out, got.begin, std::min(sent.count, got.count));
    }
    default:
      return;  // in place
  }
}

}  // namespace trireme
