#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/param_layout.h"
#include "memory/bucket.h"

namespace trireme {

// How optimizer state, gradients and parameters are cut over data-parallel ranks (ZeRO, Rajbhandari
// et al. 2020): level 1 the optimizer's state, 2 the gradients too, 3 the parameters too.
struct ZeroShape {
  int level = 0;
  int degree = 1;   // ranks that a shard is one of
  int index = 0;    // this rank among them
  int servers = 0;  // the first of them that hold any; 0: all do

  int num_holders() const { return servers > 0 ? servers : degree; }
  bool shards_grads() const { return level >= 2; }
  bool shards_params() const { return level >= 3; }
};

// A parameter, or the part of one, that this rank updates. Begins are elements from the start of
// the chunk's gradient slot and of its parameters' storage.
struct OwnedParam {
  std::string name;
  size_t param = 0;   // index in the chunk's params and layouts
  int64_t first = 0;  // of what the tensor-parallel rank holds, flattened
  int64_t count = 0;
  bool decay = false;
  double balance_rate = 0.0;
  bool is_of_expert = false;
  int64_t grad_begin = 0;
  int64_t second_use_begin = -1;  // gradient of the other use of a tied table, -1: none here
  int64_t param_begin = 0;
  int64_t norm_word = -1;  // its first of those of the model's norm; -1: another rank counts it
};

// A bucket and this rank's part of it in the storage of shards.
struct PlacedBucket {
  Bucket bucket;
  Shard shard;
  int64_t grad_storage = 0;   // element in a gradient slot
  int64_t param_storage = 0;  // element in the parameters' storage
};

// A part of what this rank owns while it is in a staging buffer: bytes from the buffer's start, -1
// where the optimizer has no such tensor.
struct OffloadRun {
  size_t owned = 0;   // index in the chunk's owned
  int64_t first = 0;  // of what is owned
  int64_t count = 0;
  int64_t param = -1;  // only where parameters lie in the file too
  int64_t master = -1;
  int64_t exp_avg = -1;
  int64_t exp_avg_sq = -1;
};
struct OffloadBlock {
  int64_t in_file = 0;  // byte from the start of the chunk's part of the file
  int64_t in_buffer = 0;
  int64_t bytes = 0;
};
// Optimizer state that moves between a file and a staging buffer as one.
struct OffloadPiece {
  std::vector<OffloadRun> runs;
  std::vector<OffloadBlock> blocks;
  int64_t bytes = 0;  // of the buffer
};

// One model chunk of one rank: its tables, and what of them this rank stores.
struct ChunkTables {
  StageSpec stage;
  std::vector<ParamSpec> params;     // what the tensor-parallel rank holds of them
  std::vector<ParamLayout> layouts;  // [param]
  StageTables tables;                // optimizer: of the owned parts only
  ZeroShape zero;
  bool params_in_file = false;  // stored there, and fetched unit by unit like shards are gathered
  std::vector<UnitGroup> groups;
  std::vector<PlacedBucket> buckets;
  std::vector<OwnedParam> owned;
  std::vector<OffloadPiece> pieces;  // where the optimizer's table lies in a file; else none
  int64_t params_bytes = 0;          // stored all the time, in memory or in the file
  int64_t grad_slot_bytes = 0;       // of one gradient slot
  // Where shards are stored, the whole groups of units that are gathered or produced: the range of
  // the tables, in bytes.
  struct UnitRange {
    int64_t begin = 0;
    int64_t bytes = 0;
  };
  std::vector<UnitRange> unit_params;  // [unit] of its group, level 3 or in a file
  std::vector<UnitRange> unit_grads;   // [unit] of its group, level 2 and 3

  DType grad_dtype() const { return tables.grads.tensors().front().dtype; }
  bool gathers_params() const { return zero.shards_params() || params_in_file; }
};

// The tables of a stage and its buckets, before ZeRO cuts them: many layouts share these. Units are
// grouped until they have bucket_bytes of gradients.
ChunkTables uncut_chunk(const ModelSpec& model, const StageSpec& stage, const StageShape& shape,
                        int64_t bucket_bytes);
// Cuts them for one rank. `zero` of what all data-parallel ranks have, `expert_zero` of experts,
// which fewer ranks have.
ChunkTables chunk_tables(ChunkTables uncut, const StageShape& shape, const ZeroShape& zero,
                         const ZeroShape& expert_zero, bool params_in_file);
ChunkTables chunk_tables(const ModelSpec& model, const StageSpec& stage, const StageShape& shape,
                         const ZeroShape& zero, const ZeroShape& expert_zero,
                         int64_t bucket_bytes = 0, bool params_in_file = false);

// Cuts the same tables for another data-parallel rank: its shards and what it owns of them, with
// the optimizer's table. Pieces in a file are not cut again.
void cut_shards(ChunkTables& chunk, const StageShape& shape, const ZeroShape& zero,
                const ZeroShape& expert_zero);

// Whether a gathered unit is kept for the whole step: the table of an embedding that the head of
// the same chunk reads too.
bool stays_gathered(const ChunkTables& chunk, int unit);

// Where the norm chunks of every parameter stand among the model's: in model order, those of one
// parameter by tensor-parallel rank.
class NormChunks {
 public:
  NormChunks(const ModelSpec& model, StageShape shape);

  int64_t total() const { return total_; }
  // Of what a tensor-parallel rank holds; -1 where a lower one holds the same.
  int64_t first(const std::string& name, int tp_rank) const;

 private:
  std::map<std::string, std::vector<int64_t>> first_of_;  // [tp rank]
  int64_t total_ = 0;
};

}  // namespace trireme
