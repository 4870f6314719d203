#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// The kinds of actions of a rank. Schedules generate F, B (input gradient), W (weight gradient) and
// their pairs; passes insert the rest.
enum class ActionKind : uint8_t {
  F,
  B,
  W,
  BW,  // B and W of one micro-batch as one action
  FB,  // F of (chunk, microbatch) overlapped with BW of (chunk_b, microbatch_b)
  SendActivation,
  RecvActivation,
  SendGrad,
  RecvGrad,
  // grad_slot += grad_slot_b, which joins two subtrees of the sum over micro-batches; with a peer:
  // joins with the rank that has the other direction of the stage.
  SumGrad,
  // Sum gradients over data-parallel ranks; with a peer: the two uses of a tied parameter.
  ReduceGrad,
  Unshard,  // gather parameters from the ranks that hold their shards
  Reshard,  // release the gathered copy
  Recompute,
  // Write a piece of the optimizer state (microbatch: its number) back to the file; with units:
  // their gathered parameters.
  Offload,
  Fetch,  // read it from the file to a staging buffer; with units: their parameters
  Step,   // norm, clip, update; with a piece number: only the update of this piece
  // Step has not waited for the norm of the other ranks; if its clipping was wrong, Validate rolls
  // back and updates again.
  Validate,
};

// True for F, B, W and their pairs: actions that run kernels of layers.
bool computes(ActionKind kind);
// True for a Send or Recv between stages.
bool is_transfer(ActionKind kind);

// One entry of a Program. Fields that a kind does not use are -1, such as chunk and microbatch of
// Step.
struct Action {
  ActionKind kind = ActionKind::F;
  int16_t chunk = 0;       // index of the rank's model chunk
  int32_t microbatch = 0;  // within this pipeline; in DualPipe direction 1 has the upper half
  int16_t chunk_b = -1;  // only for FB: the backward half, to which grad_slot and accumulate belong
  int32_t microbatch_b = -1;
  int16_t peer = -1;         // rank in the pipeline group at the other end of a transfer
  int16_t grad_slot = 0;     // W, BW: slot of the weight gradient; SumGrad: slot of the sum
  int16_t grad_slot_b = -1;  // SumGrad: slot of the second addend
  bool accumulate = false;   // W, BW, ReduceGrad: add to the slot instead of overwriting it
  // F, B, W, BW and the actions inserted around them: the units of the chunk that the action
  // covers. A unit is the embedding, a layer or the head, in the order of F; 0 units means all of
  // them.
  int16_t first_unit = 0;
  int16_t num_units = 0;

  friend bool operator==(const Action&, const Action&) = default;
};

// The ordered actions of one rank.
using Program = std::vector<Action>;

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

// Returns names such as "F", "SF" (send activation), "RB" (receive gradient) or "Step".
std::string_view name_of(ActionKind kind);

int num_stages(const Schedule& schedule);
int stage_of(const Schedule& schedule, int rank, int chunk);

// Returns text such as "F3", "BW1", "F0.1" (chunk after a dot if there are several), "F4.0&BW1.1",
// "W2+@1" (add to gradient slot 1), "SF3>2" (send to rank 2), "RB3<2", "Sum@0+@1" or "Step".
std::string to_string(const Action& action, int num_chunks);
std::string to_string(const Program& program, int num_chunks);

}  // namespace trireme
