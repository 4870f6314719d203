#include "predict/piece_times.h"

#include <algorithm>

namespace trireme {

double PieceTimes::exposed_s() const {
  const double piece_s = (matmul_s + split_s()) / pieces;
  const double waited_s = std::max(0.0, transfer_s - piece_s);
  // The last transfer of a sum has no matmul to hide behind.
  const double last_s = goes_round ? 0.0 : transfer_s;
  const double exposed_s = (pieces - 1) * waited_s + last_s;
  return exposed_s + taken_share * (moved_s() - exposed_s) + split_s();
}

}  // namespace trireme
