#include "memory/chunk_tables.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

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
  chunk.grad_slot_bytes = chunk.zero.shards_grads() ? grads_end * size_of(chunk.grad_dtype)
                                                    : chunk.tables.grads.bytes();
  chunk.params_bytes =
      chunk.zero.shards_params() ? params_end * size_of(dtype) : chunk.tables.params.bytes();
}

std::unordered_map<std::string_view, const ParamSpec*> specs_by_name(const ChunkTables& chunk) {
  std::unordered_map<std::string_view, const ParamSpec*> specs;
  for (const ParamSpec& spec : chunk.params) specs.emplace(spec.name, &spec);
  return specs;
}

void list_owned(ChunkTables& chunk) {
  chunk.owned.clear();
  const auto specs = specs_by_name(chunk);
  int64_t second_use = -1;
  for (const PlacedBucket& placed : chunk.buckets) {
    for (const ParamPiece& piece : placed.shard.pieces) {
      const auto tensor = std::find_if(placed.bucket.tensors.begin(), placed.bucket.tensors.end(),
                                       [&](const BucketTensor& t) { return t.name == piece.name; });
      const int64_t grad = tensor->grad_begin < 0 ? -1
                                                  : placed.grad_storage + tensor->grad_begin +
                                                        piece.first - placed.shard.grads.begin;
      if (piece.name == kSecondUse) second_use = grad;
      const auto found = specs.find(piece.name);
      if (found == specs.end()) continue;
      const ParamSpec* const spec = found->second;
      OwnedParam owned{piece.name,
                       size_t(spec - chunk.params.data()),
                       piece.first,
                       piece.count,
                       spec->decay,
                       spec->balance_rate,
                       spec->running_rate,
                       placed.bucket.is_of_experts,
                       grad};
      owned.param_begin =
          placed.param_storage + tensor->param_begin + piece.first - placed.shard.params.begin;
      owned.is_frozen = !spec->is_trained;
      owned.takes_muon = !chunk.matrices.empty() && chunk.matrices[owned.param].rows > 0;
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
    const ParamSpec& spec = chunk.params[owned.param];
    const bool is_whole = owned.count == spec.shape.num_elements();
    parts.push_back({.name = owned.name,
                     .shape = is_whole ? spec.shape : Shape{owned.count},
                     .is_hidden_matrix = spec.is_hidden_matrix,
                     .is_trained = spec.is_trained});
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

// Returns [param] what each tp rank holds of the matrix, or an empty list if the optimizer is not
// Muon.
std::vector<WholeMatrix> whole_matrices(const ChunkTables& chunk, const ModelSpec& model,
                                        StageShape shape) {
  std::vector<WholeMatrix> matrices(chunk.params.size());
  if (!shape.optimizer_state.muon) return {};
  for (size_t p = 0; p < matrices.size(); ++p) {
    if (!takes_muon(chunk.params[p], shape.optimizer_state)) continue;
    const Shape& whole = chunk.layouts[p].global;
    matrices[p] = {whole[0], whole[1], {}};
  }
  if (shape.tp == 1) return matrices;
  for (shape.tp_rank = 0; shape.tp_rank < shape.tp; ++shape.tp_rank) {
    const std::vector<ParamLayout> layouts = param_layouts(model, chunk.stage, shape);
    for (size_t p = 0; p < matrices.size(); ++p) {
      const ParamLayout& layout = layouts[p];
      if (matrices[p].rows == 0 || layout.placement == Placement::invariant()) continue;
      matrices[p].parts.push_back({layout.begin[0], layout.begin[1], layout.extent[0],
                                   layout.extent[1], layout.is_first_copy});
    }
  }
  return matrices;
}

// Marks the matrices of Muon, so that no border between shards cuts them: one dp rank updates the
// whole of a matrix. All tp ranks must place the borders alike, but may hold parts of different
// sizes, so the sizes of the whole matrices decide.
void keep_matrices_whole(ChunkTables& chunk, const StageShape& shape) {
  if (!shape.optimizer_state.muon) return;
  const auto specs = specs_by_name(chunk);
  bool rounds_up = false;
  for (PlacedBucket& placed : chunk.buckets) {
    bool has_matrix = false;
    for (BucketTensor& tensor : placed.bucket.tensors) {
      const auto found = specs.find(tensor.name);
      if (found == specs.end()) continue;
      const ParamSpec* const spec = found->second;
      tensor.is_whole = takes_muon(*spec, shape.optimizer_state);
      tensor.blocks =
          num_norm_chunks(chunk.layouts[size_t(spec - chunk.params.data())].global.num_elements());
      has_matrix = has_matrix || tensor.is_whole;
    }
    if (!has_matrix) {
      for (BucketTensor& tensor : placed.bucket.tensors) {
        tensor.blocks = num_norm_chunks(tensor.num_elements);
      }
      continue;
    }
    placed.bucket.rounds_up = rounds_up;
    rounds_up = !rounds_up;
  }
}

// What the first tp rank holds, which has no smaller part of a parameter than any other. Units are
// grouped by it, so that all tp ranks group alike.
std::vector<ParamSpec> largest_params(const ModelSpec& model, const StageSpec& stage,
                                      StageShape shape) {
  shape.tp_rank = 0;
  return local_param_table(model, stage, shape);
}

}  // namespace

ChunkTables uncut_chunk(const ModelSpec& model, const StageSpec& stage, const StageShape& shape,
                        int64_t bucket_bytes) {
  ChunkTables chunk;
  chunk.stage = stage;
  chunk.head_reads_table = model.head_reads_table();
  chunk.grad_dtype = shape.grad;
  chunk.params = local_param_table(model, stage, shape);
  chunk.layouts = param_layouts(model, stage, shape);
  chunk.tables = stage_tables(model, stage, shape);
  const bool has_second_use = chunk.tables.grads.contains(kSecondUse);
  chunk.groups =
      unit_groups(stage, shape.tp_rank == 0 ? chunk.params : largest_params(model, stage, shape),
                  shape.grad, has_second_use, bucket_bytes);
  for (Bucket& bucket : buckets_of(stage, chunk.params, chunk.tables, chunk.groups)) {
    chunk.buckets.push_back({.bucket = std::move(bucket), .shard = {}});
  }
  chunk.matrices = whole_matrices(chunk, model, shape);
  keep_matrices_whole(chunk, shape);
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

std::vector<int64_t> WholeMatrix::counts() const {
  std::vector<int64_t> counts;
  for (const Part& part : parts) counts.push_back(part.num_sent());
  return counts;
}

bool stays_gathered(const ChunkTables& chunk, int unit) {
  const bool is_tied_here =
      chunk.stage.has_embedding && chunk.stage.has_head && chunk.head_reads_table;
  return chunk.gathers_params() && is_tied_here && unit == 0;
}

NormChunks::NormChunks(const ModelSpec& model, StageShape shape,
                       std::span<const std::pair<StageSpec, int>> parts) {
  shape.ep = 1;
  for (const auto& [stage, tp] : parts) {
    shape.tp = tp;
    std::vector<std::vector<ParamLayout>> of_ranks;  // [tp rank][param]
    for (shape.tp_rank = 0; shape.tp_rank < shape.tp; ++shape.tp_rank) {
      of_ranks.push_back(param_layouts(model, stage, shape));
    }
    for (size_t param = 0; param < of_ranks.front().size(); ++param) {
      const auto [found, is_new] = first_of_.try_emplace(of_ranks.front()[param].name);
      if (!is_new) continue;  // the table of a tied head is counted in the first stage
      for (const std::vector<ParamLayout>& of_rank : of_ranks) {
        const ParamLayout& layout = of_rank[param];
        found->second.push_back(layout.is_first_copy ? total_ : -1);
        if (layout.is_first_copy) total_ += num_norm_chunks(layout.extent.num_elements());
      }
    }
  }
}

int64_t NormChunks::first(const std::string& name, int tp_rank) const {
  const auto found = first_of_.find(name);
  TRIREME_CHECK(found != first_of_.end(), "no parameter is named " + name);
  return found->second[size_t(tp_rank)];
}

}  // namespace trireme
