#include "collectives/algorithms/algorithms.h"

namespace trireme::algorithms {

Members all_ranks(int size, int rank) { return {.ranks = {}, .me = rank, .count = size}; }

Members ranks_from(int root, int size, int rank) {
  Members members{std::vector<int>(size), (rank - root + size) % size};
  for (int i = 0; i < size; ++i) members.ranks[i] = (root + i) % size;
  return members;
}

std::vector<Piece> balanced_pieces(Piece whole, int parts) {
  std::vector<Piece> pieces(parts);
  for (int part = 0; part < parts; ++part) {
    pieces[part] = {whole.memory, whole.begin + balanced_begin(whole.count, parts, part),
                    balanced_count(whole.count, parts, part)};
  }
  return pieces;
}

std::vector<Piece> pieces_of(Memory memory, std::span<const int64_t> counts) {
  std::vector<Piece> pieces;
  int64_t begin = 0;
  for (int64_t count : counts) {
    pieces.push_back({memory, begin, count});
    begin += count;
  }
  return pieces;
}

Step exchange(int round, int send_to, Piece send, int recv_from, Piece recv) {
  Step step;
  step.round = round;
  step.send_to = send_to;
  step.send = send;
  step.recv_from = recv_from;
  step.recv = recv;
  return step;
}
Step send_only(int round, int to, Piece piece) { return exchange(round, to, piece, -1, {}); }
Step recv_only(int round, int from, Piece piece) { return exchange(round, -1, {}, from, piece); }

Step reducing(Step step, Piece operand, bool operand_is_lower) {
  step.operand = operand;
  step.landing = operand_is_lower ? Landing::ReduceRight : Landing::ReduceLeft;
  return step;
}

Step copy(Piece target, Piece source) {
  Step step;
  step.kind = Step::Kind::Copy;
  step.recv = target;
  step.send = source;
  return step;
}

}  // namespace trireme::algorithms
