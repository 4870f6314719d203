#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "memory/chunk_tables.h"
#include "schema/program.h"

namespace trireme {

enum class MemoryClass { Params, Grads, Optimizer, Activations, Comm, Scratch, Snapshot };
inline constexpr int kNumMemoryClasses = 7;
std::string_view name_of(MemoryClass memory_class);

// A planned piece of the arena and when it is live: from the start of action `first` to the end of
// action `last`, once or several times per step.
struct MemoryRegion {
  std::string name;  // "saved[2]"
  MemoryClass memory_class = MemoryClass::Scratch;
  int64_t offset = 0;
  int64_t bytes = 0;
};

// What one model chunk needs beside its tables.
struct ChunkMemoryNeeds {
  const ChunkTables* chunk = nullptr;
  // Chunks of this rank that hold the neighbouring stages; -1: another rank does, or none exists.
  int previous_chunk = -1;
  int next_chunk = -1;
};

// Sizes and counts from which the memory of a rank is planned.
struct MemoryNeeds {
  std::vector<ChunkMemoryNeeds> chunks;
  int64_t workspace_bytes = 0;
  int64_t message_bytes = 0;   // an activation or its gradient between stages
  int64_t exchange_bytes = 0;  // numbers that the ranks exchange in Step
  int num_ahead = 0;           // leading actions that also run before Validate, for the next step
  int num_unit_slots = 2;      // gathered or produced units at one time, where shards are stored
  int64_t snapshot_bytes = 0;  // buffer of a checkpoint that is written beside training; 0: none
  int64_t move_bytes = 0;      // buffer of the parity of checkpoints in memory; 0: none
};

// A saved slot of a chunk.
struct SavedSlot {
  int chunk = 0;
  int slot = 0;
};

// What one action uses. Slots are indices into MemoryPlan's slot lists; -1: none.
struct ActionMemory {
  int saved_slot = -1;
  int input_slot = -1;  // F: the saved slot of the previous stage, if it lies on this rank
  int weight_grad_slot = -1;
  int message_in = -1;   // B: the gradient of the chunk's output. RecvGrad: where it lands
  int message_out = -1;  // B: where the gradient of its input is put. SendGrad: what is sent
  std::vector<SavedSlot> finish_activations;  // sends that must be over when this action ends
  std::vector<int> finish_messages;           // the same of message slots
  int finish_reduces = 0;                     // oldest reductions that must be over
  bool finish_offload = false;                // all pieces must be back in the file
  std::vector<int> acquire;                   // regions that become live before it
  std::vector<int> release;                   // regions that are dead after it
};

// Where the parts of a chunk lie: regions.
struct ChunkRegions {
  int params = -1;     // -1: they lie in a file
  int optimizer = -1;  // -1: it lies in a file
  int copies = -1;     // from Step to Validate, of what Step updates
  int scratch = -1;  // one for all chunks, or of this chunk where two of them run beside each other
  std::vector<int> grad_slots, saved_slots, weight_grad_slots;
  std::vector<int> unit_params, unit_grads;  // [unit] shared slots, where shards are stored
};

// How much memory a rank needs.
struct MemoryBytes {
  int64_t arena_bytes = 0;
  int64_t peak_bytes = 0;                       // greatest sum of live regions over the Program
  int64_t class_bytes[kNumMemoryClasses] = {};  // greatest of each class on its own
};

// Where everything of one rank lies, decided before step 1 from the tables and the Program alone.
struct MemoryPlan : MemoryBytes {
  std::vector<MemoryRegion> regions;
  std::vector<int> permanent;  // live for the whole run
  std::vector<ChunkRegions> chunks;
  int workspace = -1, exchange = -1;
  int newton_schulz = -1;  // live in Step; -1: Muon updates no matrix of this rank
  int snapshot = -1;       // -1: every save waits for the disk
  int moves = -1;          // -1: no checkpoints are kept in memory
  std::vector<int> message_slots;
  std::vector<int> staging;                // buffers of pieces that lie in a file
  std::vector<ActionMemory> actions;       // one per action of the Program
  std::vector<ActionMemory> eval_actions;  // the same of the forward-only one

  int64_t peak_action = 0;  // where peak_bytes is reached first
};

// Bytes of the copies of a chunk's owned parameters and their state, to which Validate rolls back.
int64_t copies_bytes(const ChunkTables& chunk);

// Bytes of an owned parameter in a checkpoint: its master and its moments.
int64_t checkpoint_bytes(const ChunkTables& chunk, const OwnedParam& owned);

// Whether B and W are actions of their own.
bool splits_backward(const Program& program);

// The Program must be checked, with gradient slots assigned (program/accumulate.h). The
// evaluation's has F and transfers only.
MemoryPlan plan_memory(const Program& program, const Program& eval_program,
                       const MemoryNeeds& needs);

// The largest tensor among the regions that are live at the peak: the one to name in a refusal.
std::string largest_tensor(const MemoryPlan& plan, std::span<const ChunkTables> chunks);

}  // namespace trireme
