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
  int64_t grad_begin = 0;
  int64_t param_begin = -1;  // -1: a second use of a tied parameter has a gradient alone
};

// Neighbouring units (the embedding, a layer, the head) that data parallelism handles as one.
struct UnitGroup {
  int first_unit = 0;
  int num_units = 1;
};

// Neighbours in the tables of a chunk that data parallelism communicates as one piece: those of one
// group of units. The table of a tied embedding is a bucket of its own, so that both its uses are
// cut alike, and so are the experts of a layer.
struct Bucket {
  int unit = 0;                // the group's first
  bool is_of_experts = false;  // which other ranks have than those of the rest
  std::vector<BucketTensor> tensors;

  TableRange grads() const;
  TableRange params() const;  // nothing for a second use
};

// What a shard holds of one parameter.
struct ParamPiece {
  std::string name;
  int64_t first = 0;  // element of the flattened parameter, a multiple of kNormChunk
  int64_t count = 0;
};

// Shard `index` of `degree` of a bucket: a contiguous run of its norm chunks, in balance. Nothing
// where there is no such shard.
struct Shard {
  TableRange grads;
  TableRange params;
  std::vector<ParamPiece> pieces;
};
Shard shard_of(const Bucket& bucket, int degree, int index);
// The same without its pieces.
Shard shard_ranges(const Bucket& bucket, int degree, int index);

// Units in order, as few in a group as make least_bytes of gradients; what is left at the end joins
// the last group. The embedding of a chunk with both ends stays alone: its table may be gathered
// for longer than the rest.
std::vector<UnitGroup> unit_groups(const StageSpec& stage, const std::vector<ParamSpec>& params,
                                   const TensorTable& grads, int64_t least_bytes);

// The buckets of a chunk in model order. `params` are the parameters of its tables.
std::vector<Bucket> buckets_of(const StageSpec& stage, const std::vector<ParamSpec>& params,
                               const StageTables& tables, const std::vector<UnitGroup>& groups);

int num_units(const StageSpec& stage);

}  // namespace trireme
