#pragma once

namespace trireme {

// A transfer in pieces beside the matmul that reads or makes them (nn/block_edge.h): rows of one
// piece are multiplied while others move. `pieces` matmuls of equal size; round a ring one transfer
// less, between them; of sums one behind each of them, which follow each other.
struct PieceTimes {
  int pieces = 1;
  bool goes_round = false;  // else sums
  double matmul_s = 0.0;    // of all pieces together
  double weights_s = 0.0;   // each matmul but one reads the weights once more
  double transfer_s = 0.0;  // of one piece

  double moved_s() const { return (goes_round ? pieces - 1 : pieces) * transfer_s; }
  double split_s() const { return (pieces - 1) * weights_s; }
  // By how much it outlasts the matmul in one piece.
  double exposed_s() const;
};

}  // namespace trireme
