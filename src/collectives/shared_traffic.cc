#include "collectives/plan.h"

namespace trireme {

// N: ranks, M: the full vector, c: this rank's part. Counts the bytes that move between memories of
// different ranks, on whichever rank they are copied; a result counts as sent by the rank that
// computed it.
PlanTraffic shared_traffic(const PlanRequest& q, int64_t element_bytes) {
  const int64_t n = q.size;
  const int64_t m = q.count;
  const auto part = [&](int r) {
    return q.counts.empty() ? balanced_count(m, q.size, r) : q.counts[size_t(r)];
  };
  const int64_t c = part(q.rank);
  const bool is_root = q.rank == q.root;
  const bool eager = m >= 0 && m * element_bytes <= kEagerBytes;
  PlanTraffic t;
  switch (q.collective) {
    case Collective::AllReduce:
      // Eager: every rank reads everything. Else the others read M - c of the input and get c of
      // the result.
      t.sent = eager ? (n - 1) * m : (m - c) + (n - 1) * c;
      t.received = t.sent;
      break;
    case Collective::Reduce:
      if (eager) {
        t.sent = is_root ? 0 : m;
        t.received = is_root ? (n - 1) * m : 0;
      } else {
        t.sent = is_root ? m - c : m;
        t.received = (n - 1) * c + (is_root ? m - c : 0);
      }
      break;
    case Collective::Broadcast:
      t.sent = is_root ? (n - 1) * m : 0;
      t.received = is_root ? 0 : m;
      break;
    case Collective::Scatter:
      t.sent = is_root ? m - c : 0;
      t.received = is_root ? 0 : c;
      break;
    case Collective::Gather:
      t.sent = is_root ? 0 : c;
      t.received = is_root ? m - c : 0;
      break;
    case Collective::AllGather:
      t.sent = (n - 1) * c;
      t.received = m - c;
      break;
    case Collective::ReduceScatter:
      t.sent = m - c;
      t.received = (n - 1) * c;
      break;
    case Collective::AllToAll: {
      if (q.recv_counts.empty()) {
        t.sent = m - c;
        t.received = (n - 1) * c;
        break;
      }
      for (int r = 0; r < q.size; ++r) {
        if (r == q.rank) continue;
        t.sent += q.counts[size_t(r)];
        t.received += q.recv_counts[size_t(r)];
      }
      break;
    }
    default:
      break;
  }
  return t;
}

}  // namespace trireme
