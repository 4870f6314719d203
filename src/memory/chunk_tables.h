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

// A matrix that Muon updates. Step needs the whole of it, also if each tp rank holds only a part.
struct WholeMatrix {
  int64_t rows = 0;
  int64_t cols = 0;
  // [tp rank] the part that it holds; empty if every rank holds the whole matrix. If several ranks
  // hold the same part, only the first of them sends it.
  struct Part {
    int64_t row = 0, col = 0;
    int64_t rows = 0, cols = 0;
    bool is_sent = true;
    int64_t num_elements() const { return rows * cols; }
    int64_t num_sent() const { return is_sent ? num_elements() : 0; }
  };
  std::vector<Part> parts;

  bool is_gathered() const { return !parts.empty(); }
  std::vector<int64_t> counts() const;  // [tp rank] elements that it sends; empty if no parts
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
  double running_rate = 0.0;
  bool is_of_expert = false;
  int64_t grad_begin = -1;        // -1: its gradient is never computed
  int64_t second_use_begin = -1;  // gradient of the other use of a tied table, -1: none here
  int64_t param_begin = 0;
  int64_t norm_word = -1;   // its first word of the model's norm; -1: another rank counts it
  bool takes_muon = false;  // Muon updates it; ChunkTables::matrices has its matrix
  bool is_frozen = false;   // it is not updated, has no moments, and the norm leaves it out
  bool has_grad() const { return grad_begin >= 0; }
};

// A bucket and this rank's part of it in the storage of shards.
struct PlacedBucket {
  Bucket bucket;
  Shard shard;
  int64_t grad_storage = 0;   // element in a gradient slot
  int64_t param_storage = 0;  // element in the parameters' storage
};

// A part of an owned parameter that lies in a staging buffer during the update. The places of its
// tensors are bytes from the start of the buffer; -1: the optimizer has no such tensor.
struct OffloadRun {
  size_t owned = 0;   // index in the chunk's owned
  int64_t first = 0;  // element of the owned part
  int64_t count = 0;
  int64_t param = -1;  // only if the parameters also lie in the file
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

// One model chunk of one rank: its tables, and the parts of them that this rank stores.
struct ChunkTables {
  StageSpec stage;
  std::vector<ParamSpec> params;     // with the shapes that this tp rank holds
  std::vector<ParamLayout> layouts;  // [param]
  // [param] of zero rows unless Muon updates it; the list is empty for other optimizers.
  std::vector<WholeMatrix> matrices;
  StageTables tables;             // the optimizer's table has only the owned parts
  bool head_reads_table = false;  // ModelSpec::head_reads_table
  ZeroShape zero;
  bool params_in_file = false;  // they lie in a file and are fetched unit by unit, as if gathered
  std::vector<UnitGroup> groups;
  std::vector<PlacedBucket> buckets;
  std::vector<OwnedParam> owned;
  std::vector<OffloadPiece> pieces;  // of the optimizer's table, if it lies in a file; else empty
  int64_t params_bytes = 0;          // stored all the time, in memory or in the file
  int64_t grad_slot_bytes = 0;       // of one gradient slot
  // If shards are stored: the range of a table, in bytes, that is gathered or produced as a whole.
  struct UnitRange {
    int64_t begin = 0;
    int64_t bytes = 0;
  };
  std::vector<UnitRange> unit_params;  // [unit] of its group, level 3 or in a file
  std::vector<UnitRange> unit_grads;   // [unit] of its group, level 2 and 3

  DType grad_dtype = DType::F32;
  bool gathers_params() const { return zero.shards_params() || params_in_file; }
  // Whether a step changes what other ranks have of the bucket, or drops it.
  bool is_gathered_in_step(const Bucket& bucket) const {
    return gathers_params() || bucket.grads().count > 0;
  }
};

// Returns the tables of a stage and its buckets before ZeRO cuts them; many layouts share these.
// Units are grouped until they have bucket_bytes of gradients.
ChunkTables uncut_chunk(const ModelSpec& model, const StageSpec& stage, const StageShape& shape,
                        int64_t bucket_bytes);
// Cuts the buckets for one rank. `expert_zero` applies to experts, which lie on fewer ranks, and
// `zero` to all other parameters.
ChunkTables chunk_tables(ChunkTables uncut, const StageShape& shape, const ZeroShape& zero,
                         const ZeroShape& expert_zero, bool params_in_file);
ChunkTables chunk_tables(const ModelSpec& model, const StageSpec& stage, const StageShape& shape,
                         const ZeroShape& zero, const ZeroShape& expert_zero,
                         int64_t bucket_bytes = 0, bool params_in_file = false);

// Cuts the same tables for another dp rank: changes the shards, the owned parameters and the
// optimizer's table. Does not change `pieces`.
void cut_shards(ChunkTables& chunk, const StageShape& shape, const ZeroShape& zero,
                const ZeroShape& expert_zero);

// Returns true if a gathered unit is kept for the whole step. This is the embedding if the head of
// the same chunk also reads its table.
bool stays_gathered(const ChunkTables& chunk, int unit);

// The numbers of the norm chunks of all parameters in the model. They count in model order, and
// within a parameter in the order of tp ranks. `parts` are those of the model that follow each
// other, with the number of tp ranks that share each.
class NormChunks {
 public:
  NormChunks(const ModelSpec& model, StageShape shape,
             std::span<const std::pair<StageSpec, int>> parts);

  int64_t total() const { return total_; }
  // Returns the first chunk of the part that a tp rank holds, or -1 if a lower rank holds the same.
  int64_t first(const std::string& name, int tp_rank) const;

 private:
  std::map<std::string, std::vector<int64_t>> first_of_;  // [tp rank]
  int64_t total_ = 0;
};

}  // namespace trireme
