#include "collectives/closed_form.h"

#include <bit>

namespace trireme {
namespace {

std::optional<ClosedForm> of_all_reduce(Algorithm algorithm, int64_t N, int64_t M) {
  switch (algorithm) {
    case Algorithm::Naive:
      return ClosedForm{"N (N-1) M", N * (N - 1) * M};
    case Algorithm::Doubling: {
      const auto P = int64_t(std::bit_floor(uint64_t(N)));
      const int64_t K = std::countr_zero(uint64_t(P)), R = N - P;
      return ClosedForm{"(P K + 2 R) M", (P * K + 2 * R) * M};
    }
    default:
      return ClosedForm{"2 (N-1) M", 2 * (N - 1) * M};
  }
}

}  // namespace

std::optional<ClosedForm> closed_form(Collective collective, Algorithm algorithm, int num_ranks,
                                      int64_t count) {
  const int64_t N = num_ranks, M = count;
  const ClosedForm each_needs_all{"(N-1) M", (N - 1) * M};
  switch (collective) {
    case Collective::AllReduce:
      return of_all_reduce(algorithm, N, M);
    case Collective::Reduce:
      if (algorithm == Algorithm::Ring) return std::nullopt;
      return each_needs_all;
    case Collective::Broadcast:
    case Collective::AllGather:
    case Collective::ReduceScatter:
      return each_needs_all;
    case Collective::AllToAll:
      if (algorithm != Algorithm::Naive) return std::nullopt;  // the others pass parts on
      return each_needs_all;
    case Collective::Barrier:
      return ClosedForm{"0", 0};
    default:
      return std::nullopt;
  }
}

}  // namespace trireme
