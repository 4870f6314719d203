#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "spec/bucket.h"
#include "spec/model_layout.h"

namespace trireme {

// How optimizer state, gradients and parameters are cut over data-parallel ranks (ZeRO, Rajbhandari
// et al. 2020): level 1 the optimizer's state, 2 the gradients too, 3 the parameters too.
struct ZeroShape {
  int level = 0;
  int degree = 1;  // ranks that a shard is one of
  int index = 0;   // this rank among them

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
  int64_t norm_chunk =
      -1;  // first of its norm chunks among the model's; -1: another rank counts it
};

// A bucket and this rank's part of it in the storage of shards.
struct PlacedBucket {
  Bucket bucket;
  Shard shard;
  int64_t grad_storage = 0;   // element in a gradient slot
  int64_t param_storage = 0;  // element in the parameters' storage
};

// One model chunk of one rank: its tables, and what of them this rank stores.
struct ChunkTables {
  StageSpec stage;
  std::vector<ParamSpec> params;     // what the tensor-parallel rank holds of them
  std::vector<ParamLayout> layouts;  // [param]
  StageTables tables;                // optimizer: of the owned parts only
  ZeroShape zero;
  std::vector<PlacedBucket> buckets;
  std::vector<OwnedParam> owned;
  int64_t params_bytes = 0;     // stored all the time
  int64_t grad_slot_bytes = 0;  // of one gradient slot
  // Where shards are stored, the whole units that are gathered or produced: the range of the
  // tables, in bytes.
  struct UnitRange {
    int64_t begin = 0;
    int64_t bytes = 0;
  };
  std::vector<UnitRange> unit_params;  // [unit], level 3
  std::vector<UnitRange> unit_grads;   // [unit], level 2 and 3
};

// `zero` of what all data-parallel ranks have, `expert_zero` of experts, which fewer ranks have.
ChunkTables chunk_tables(const ModelSpec& model, const StageSpec& stage, const StageShape& shape,
                         const ZeroShape& zero, const ZeroShape& expert_zero);

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
