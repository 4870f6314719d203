#include "memory/chunk_tables.h"

#include <algorithm>

#include "base/align.h"
#include "base/check.h"
#include "graph/model_graphs.h"
#include "schema/norm_chunk.h"

namespace trireme {
namespace {

// Of any dtype: so many elements have that many bytes at least.
int64_t aligned_elements(int64_t elements) { return round_up(elements, kTensorAlignment); }

const char* const kSecondUse = "embedding.tokens@head";

// Shards lie one behind the other in the order of their buckets.
void place_shards(ChunkTables& chunk) {
  int64_t grads_end = 0;
  int64_t params_end = 0;
  for (PlacedBucket& placed : chunk.buckets) {
    placed.grad_storage = chunk.zero.shards_grads() ? grads_end : placed.shard.grads.begin;
    placed.param_storage = chunk.zero.shards_params() ? params_end : placed.shard.params.begin;
    grads_end = aligned_elements(grads_end + placed.shard.grads.count);
    params_end = aligned_elements(params_end + placed.shard.params.count);
  }
  const DType dtype = chunk.tables.params.tensors().front().dtype;
  chunk.grad_slot_bytes = chunk.zero.shards_grads() ? grads_end * size_of(chunk.grad_dtype())
                                                    : chunk.tables.grads.bytes();
  chunk.params_bytes =
      chunk.zero.shards_params() ? params_end * size_of(dtype) : chunk.tables.params.bytes();
}

void list_owned(ChunkTables& chunk) {
  chunk.owned.clear();
  const auto spec_of = [&](const std::string& name) {
    return std::find_if(chunk.params.begin(), chunk.params.end(),
                        [&](const ParamSpec& param) { return param.name == name; });
  };
  int64_t second_use = -1;
  for (const PlacedBucket& placed : chunk.buckets) {
    for (const ParamPiece& piece : placed.shard.pieces) {
      const auto tensor = std::find_if(placed.bucket.tensors.begin(), placed.bucket.tensors.end(),
                                       [&](const BucketTensor& t) { return t.name == piece.name; });
      const int64_t grad =
          placed.grad_storage + tensor->grad_begin + piece.first - placed.shard.grads.begin;
      if (piece.name == kSecondUse) second_use = grad;
      const auto spec = spec_of(piece.name);
      if (spec == chunk.params.end()) continue;
      OwnedParam owned{piece.name,
                       size_t(spec - chunk.params.begin()),
                       piece.first,
                       piece.count,
                       spec->decay,
                       spec->balance_rate,
                       placed.bucket.is_of_experts,
                       grad};
      owned.param_begin =
          placed.param_storage + tensor->param_begin + piece.first - placed.shard.params.begin;
      chunk.owned.push_back(std::move(owned));
    }
  }
  for (OwnedParam& owned : chunk.owned) {
    if (owned.name == kTokenTable && chunk.stage.has_embedding) owned.second_use_begin = second_use;
  }
}

TensorTable owned_optimizer_table(const ChunkTables& chunk, DType compute,
                                  const OptimizerStateSpec& state) {
  std::vector<ParamSpec> parts;
  for (const OwnedParam& owned : chunk.owned) {
    const Shape& held = chunk.params[owned.param].shape;
    const bool is_whole = owned.count == held.num_elements();
    parts.push_back({.name = owned.name, .shape = is_whole ? held : Shape{owned.count}});
  }
  return optimizer_table(parts, compute, state);
}

std::vector<ChunkTables::UnitRange> unit_ranges(const ChunkTables& chunk,
                                                const TensorTable& table) {
  std::vector<ChunkTables::UnitRange> ranges(size_t(num_units(chunk.stage)), {INT64_MAX, 0});
  for (const PlacedBucket& placed : chunk.buckets) {
    ChunkTables::UnitRange& range = ranges[size_t(placed.bucket.unit)];
    for (const BucketTensor& tensor : placed.bucket.tensors) {
      if (!table.contains(tensor.name)) continue;
      const TensorSpec& spec = table.at(tensor.name);
      const int64_t end = std::max(range.begin == INT64_MAX ? 0 : range.begin + range.bytes,
                                   spec.offset + spec.bytes());
      range.begin = std::min(range.begin, spec.offset);
      range.bytes = end - range.begin;
    }
  }
  for (ChunkTables::UnitRange& range : ranges) {
    if (range.begin == INT64_MAX) range.begin = 0;  // a head whose only weight is the tied table
    range.bytes = aligned_bytes(range.bytes);
  }
  for (const UnitGroup& group : chunk.groups) {
    const auto first = ranges.begin() + group.first_unit;
    std::fill(first, first + group.num_units, ChunkTables::UnitRange(*first));
  }
  return ranges;
}

// The gradients of the first tp rank, which has no smaller part of a parameter than any other.
// Units are grouped by them, so that all tp ranks group alike.
TensorTable largest_grads(const ModelSpec& model, const StageSpec& stage, StageShape shape) {
  shape.tp_rank = 0;
  return stage_tables(model, stage, shape).grads;
}

}  // namespace

ChunkTables uncut_chunk(const ModelSpec& model, const StageSpec& stage, const StageShape& shape,
                        int64_t bucket_bytes) {
  ChunkTables chunk;
  chunk.stage = stage;
  chunk.params = local_param_table(model, stage, shape);
  chunk.layouts = param_layouts(model, stage, shape);
  chunk.tables = stage_tables(model, stage, shape);
  const bool is_largest = shape.tp_rank == 0;
  chunk.groups = unit_groups(stage, chunk.params,
                             is_largest ? chunk.tables.grads : largest_grads(model, stage, shape),
                             bucket_bytes);
  for (Bucket& bucket : buckets_of(stage, chunk.params, chunk.tables, chunk.groups)) {
    chunk.buckets.push_back({.bucket = std::move(bucket), .shard = {}});
  }
  return chunk;
}

ChunkTables chunk_tables(ChunkTables chunk, const StageShape& shape, const ZeroShape& zero,
                         const ZeroShape& expert_zero, bool params_in_file) {
  chunk.params_in_file = params_in_file;
  cut_shards(chunk, shape, zero, expert_zero);
  if (zero.shards_grads()) chunk.unit_grads = unit_ranges(chunk, chunk.tables.grads);
  if (chunk.gathers_params()) chunk.unit_params = unit_ranges(chunk, chunk.tables.params);
  return chunk;
}

ChunkTables chunk_tables(const ModelSpec& model, const StageSpec& stage, const StageShape& shape,
                         const ZeroShape& zero, const ZeroShape& expert_zero, int64_t bucket_bytes,
                         bool params_in_file) {
  return chunk_tables(uncut_chunk(model, stage, shape, bucket_bytes), shape, zero, expert_zero,
                      params_in_file);
}

void cut_shards(ChunkTables& chunk, const StageShape& shape, const ZeroShape& zero,
                const ZeroShape& expert_zero) {
  chunk.zero = zero;
  for (PlacedBucket& placed : chunk.buckets) {
    const ZeroShape& own = placed.bucket.is_of_experts ? expert_zero : zero;
    placed.shard = own.level == 0 ? shard_of(placed.bucket, 1, 0)
                                  : shard_of(placed.bucket, own.num_holders(), own.index);
  }
  place_shards(chunk);
  list_owned(chunk);
  chunk.tables.optimizer = owned_optimizer_table(chunk, shape.compute, shape.optimizer_state);
}

bool stays_gathered(const ChunkTables& chunk, int unit) {
  const bool is_tied_here = chunk.stage.has_embedding && chunk.stage.has_head &&
                            !chunk.tables.params.contains("head.weight");
  return chunk.gathers_params() && is_tied_here && unit == 0;
}

NormChunks::NormChunks(const ModelSpec& model, StageShape shape) {
  shape.ep = 1;
  std::vector<std::vector<ParamLayout>> of_ranks;  // [tp rank][param]
  for (shape.tp_rank = 0; shape.tp_rank < shape.tp; ++shape.tp_rank) {
    of_ranks.push_back(param_layouts(model, whole_model(model), shape));
  }
  for (size_t param = 0; param < of_ranks.front().size(); ++param) {
    std::vector<int64_t>& first = first_of_[of_ranks.front()[param].name];
    for (const std::vector<ParamLayout>& of_rank : of_ranks) {
      const ParamLayout& layout = of_rank[param];
      first.push_back(layout.is_first_copy ? total_ : -1);
      if (layout.is_first_copy) total_ += num_norm_chunks(layout.extent.num_elements());
    }
  }
}

int64_t NormChunks::first(const std::string& name, int tp_rank) const {
  const auto found = first_of_.find(name);
  TRIREME_CHECK(found != first_of_.end(), "no parameter is named " + name);
  return found->second[size_t(tp_rank)];
}

}  // namespace trireme
