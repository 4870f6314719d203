#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "memory/stage_tables.h"
#include "schema/model_spec.h"

namespace trireme {

// Elements [begin, begin + count) of a tensor table, padding between its tensors included.
struct TableRange {
  int64_t begin = 0;
  int64_t count = 0;
  int64_t end() const { return begin + count; }
};

// A tensor of a bucket; begins are elements from the start of the chunk's tables.
struct BucketTensor {
  std::string name;
  int64_t num_elements = 0;
  int64_t grad_begin = -1;   // -1: the parameter is never trained
  int64_t param_begin = -1;  // -1: a second use of a tied parameter has a gradient alone
  // The size by which it counts when borders between shards are chosen, in norm chunks. In a bucket
  // with matrices of Muon this is the size of the whole parameter, which is equal on all tp ranks.
  int64_t blocks = 0;
  bool is_whole = false;  // no border between shards cuts it
};

// Neighbouring units (the embedding, a layer, the head) that data parallelism handles as one.
struct UnitGroup {
  int first_unit = 0;
  int num_units = 1;
};

// Neighbouring tensors of one group of units, which data parallelism communicates as one piece. The
// table of a tied embedding is a bucket of its own, so that both its uses are cut alike. The
// experts of a layer are a bucket of their own, too, and so are the parameters of a group that are
// never trained.
struct Bucket {
  int unit = 0;                // the group's first
  bool is_of_experts = false;  // parameters of experts, which lie on fewer ranks
  // A border must not cut a tensor with is_whole. It goes behind the tensor if this is true, else
  // before it. Neighbouring buckets differ, so that the differences between shards partly cancel.
  bool rounds_up = false;
  std::vector<BucketTensor> tensors;

  TableRange grads() const;   // nothing where nothing is trained
  TableRange params() const;  // nothing for a second use
};

// The part of a parameter that lies in a shard.
struct ParamPiece {
  std::string name;
  int64_t first = 0;  // element of the flattened parameter, a multiple of kNormChunk
  int64_t count = 0;
};

// Shard `index` of `degree` of a bucket: a contiguous run of its norm chunks. Shards are as equal
// in size as tensors that stay whole allow. A shard with index >= degree is empty.
struct Shard {
  TableRange grads;
  TableRange params;
  std::vector<ParamPiece> pieces;
};
Shard shard_of(const Bucket& bucket, int degree, int index);
// The same without its pieces.
Shard shard_ranges(const Bucket& bucket, int degree, int index);

// Returns all numbers that decide the sizes of the shards of a bucket. Buckets with the same
// numbers have shards of the same sizes.
std::vector<int64_t> numbers_of(const Bucket& bucket);

// Returns groups of neighbouring units, in order. A group has as few units as make least_bytes of
// gradients if all of them are trained; units that are left at the end join the last group. If a
// chunk has both embedding and head, its embedding is a group of its own, because its table may
// stay gathered longer. With a second use of the table, the head has a gradient of its own.
std::vector<UnitGroup> unit_groups(const StageSpec& stage, const std::vector<ParamSpec>& params,
                                   DType grad, bool has_second_use, int64_t least_bytes);

// Returns the buckets of a chunk in model order. `params` are the parameters of its tables.
std::vector<Bucket> buckets_of(const StageSpec& stage, const std::vector<ParamSpec>& params,
                               const StageTables& tables, const std::vector<UnitGroup>& groups);

int num_units(const StageSpec& stage);

}  // namespace trireme
