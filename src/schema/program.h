#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// What a rank can be told to do, one meaning for each kind. F, B (input gradient), W (weight
// gradient) and their pairs are what schedules generate; the rest is inserted by passes.
enum class ActionKind : uint8_t {
  F,
  B,
  W,
  BW,  // B and W of one micro-batch as one action
  FB,  // F of (chunk, microbatch) overlapped with BW of (chunk_b, microbatch_b): DualPipe makes it,
       // the simulator runs it as one, and `unpair` (program/pairs.h) makes two actions of it
  SendActivation,
  RecvActivation,
  SendGrad,
  RecvGrad,
  SumGrad,         // grad_slot += grad_slot_b: joins two subtrees of the sum over micro-batches
  JoinDirections,  // sums the gradients of a stage with those of the peer, which has the other
                   // direction of the stage (DualPipe)
  ReduceGrad,      // combine gradients across data-parallel ranks
  JoinTiedTable,  // sums the gradients of the two uses of a tied parameter with the peer, which has
                  // the other use; the peer may be the rank itself
  Unshard,        // gather parameters from the ranks that hold their shards
  Reshard,        // give the gathered copy up
  FetchUnits,     // bring the parameters of units from the file to where they are read
  OffloadUnits,   // bring the gathered parameters of units back to the file
  FetchPiece,     // bring a piece of the optimizer's state from the file to a staging buffer
  StepPiece,      // update that piece, once Step has taken the norm
  OffloadPiece,   // bring it back to the file
  Step,           // norm, clip, update; where there are pieces they are updated behind it
  Validate,       // Step has not waited for the other ranks' part of the norm: where its clipping
                  // was wrong, roll back and update again
};

// True for F, B, W and their pairs: actions that run kernels of layers.
bool computes(ActionKind kind);
// True for a Send or Recv between stages.
bool is_transfer(ActionKind kind);
// The sum of gradients with a rank of the same pipeline.
bool joins_ranks(ActionKind kind);
// What happens to one piece of the optimizer's state.
bool is_of_piece(ActionKind kind);

// F and the BW of another chunk behind it that run beside each other: while the transfers inside
// the layers of one travel, the other computes. The mark of F says Next, that of BW says Previous.
enum class Beside : uint8_t { None, Next, Previous };

// One entry of a Program. Fields that a kind does not use are -1, such as chunk and microbatch of
// Step.
struct Action {
  ActionKind kind = ActionKind::F;
  int16_t chunk = 0;  // which of the rank's model chunks
  // Of this pipeline; DualPipe: direction 1 holds the upper half. The number of the piece where the
  // kind is of a piece.
  int32_t microbatch = 0;
  int16_t chunk_b = -1;  // FB only: the backward half, to which grad_slot and accumulate belong
  int32_t microbatch_b = -1;
  int16_t peer = -1;      // the rank (of the pipeline group) at the other end of a transfer or join
  int16_t grad_slot = 0;  // W, BW: where the weight gradient goes; SumGrad: the sum
  int16_t grad_slot_b = -1;  // SumGrad: what is added
  bool accumulate = false;   // W, BW, ReduceGrad: add to the slot instead of overwriting it
  // F, B, W, BW and the actions inserted around them: the units of the chunk that the action
  // covers. A unit is the embedding, a layer or the head, in the order of F; 0 units means all of
  // them.
  int16_t first_unit = 0;
  int16_t num_units = 0;
  Beside beside = Beside::None;

  friend bool operator==(const Action&, const Action&) = default;
};

// The ordered actions of one rank.
using Program = std::vector<Action>;
// Whether some actions run beside each other.
bool has_pairs(const Program& program);

// Stage of (chunk, rank). Loop: chunk * p + rank. V: odd chunks are reversed. Bidir: chunk 1 runs
// the stages backwards (DualPipe: two directions over one set of stages).
enum class StagePlacement : uint8_t { Loop, V, Bidir };

// The programs of all p ranks of one pipeline.
struct Schedule {
  std::string kind;          // such as "1f1b"
  int num_ranks = 1;         // p
  int num_microbatches = 1;  // m
  int num_chunks = 1;        // v
  StagePlacement placement = StagePlacement::Loop;
  std::vector<Program> programs;  // [p]
};

// "F", "SF" (send activation), "RB" (receive gradient), "Step". Kinds of a piece and of units have
// one name, as have both sums of gradients of either sort: what follows it tells them apart.
std::string_view name_of(ActionKind kind);

int num_stages(const Schedule& schedule);
int stage_of(const Schedule& schedule, int rank, int chunk);

// Returns text such as "F3", "BW1", "F0.1" (chunk after a dot if there are several), "F4.0&BW1.1",
// "F3&" and "&BW1" (beside
// each other), "W2+@1" (add to gradient slot 1), "SF3>2" (send to rank 2), "RB3<2", "Sum@0+@1" or
// "Step".
std::string to_string(const Action& action, int num_chunks);
std::string to_string(const Program& program, int num_chunks);

}  // namespace trireme
