#pragma once

namespace trireme {

// Times of a transfer in pieces beside the matmul that reads or makes them (nn/block_edge.h): the
// rows of one piece are multiplied while other pieces are sent. There are `pieces` matmuls of equal
// size. In a ring `pieces - 1` transfers stand between them. For a sum one transfer stands behind
// each matmul, and the transfers run one after the other.
struct PieceTimes {
  int pieces = 1;
  bool goes_round = false;  // true for a ring, false for sums
  double matmul_s = 0.0;    // of all pieces together
  // Every piece after the first takes so much longer: it reads the weights again, as far as that is
  // not hidden behind its FLOPs, and its tiles may fill a wave less well.
  double weights_s = 0.0;
  double transfer_s = 0.0;   // of one piece
  double taken_share = 0.0;  // of the matmul's speed, that a transfer beside it takes

  double moved_s() const { return (goes_round ? pieces - 1 : pieces) * transfer_s; }
  double split_s() const { return (pieces - 1) * weights_s; }
  // Seconds by which the whole takes longer than one matmul without pieces.
  double exposed_s() const;
};

}  // namespace trireme
