#include "compile/rank_classes.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "compile/compile_rank.h"
#include "graph/model_shard.h"
#include "memory/newton_schulz_memory.h"
#include "memory/offload_pieces.h"

namespace trireme {
namespace {

using Sizes = std::vector<int64_t>;

// Numbers the distinct size lists in the order in which they are first asked for.
class Numbers {
 public:
  int of(Sizes sizes) {
    return numbers_.try_emplace(std::move(sizes), int(numbers_.size())).first->second;
  }

 private:
  std::map<Sizes, int> numbers_;
};

// The sizes that depend on the tp index: those of every tensor.
Sizes sizes_of_tables(const ModelSpec& model, const RankPlan& rank) {
  Sizes sizes = content_of(model, rank);
  for (const ChunkTables& chunk : rank.chunks) {
    const StageTables& tables = chunk.tables;
    for (const TensorTable* table :
         {&tables.params, &tables.grads, &tables.saved, &tables.weight_grad, &tables.scratch}) {
      for (const TensorSpec& tensor : table->tensors()) {
        sizes.push_back(tensor.offset);
        sizes.push_back(tensor.bytes());
      }
      sizes.push_back(-1);
    }
  }
  return sizes;
}

// The sizes that depend on the dp index: those of every shard and of what is stored of it.
Sizes sizes_of_shards(const RankPlan& rank) {
  Sizes sizes;
  for (const ChunkTables& chunk : rank.chunks) {
    for (const PlacedBucket& placed : chunk.buckets) {
      sizes.push_back(placed.shard.grads.count);
      sizes.push_back(placed.shard.params.count);
    }
    sizes.push_back(chunk.params_bytes);
    sizes.push_back(chunk.grad_slot_bytes);
    sizes.push_back(chunk.tables.optimizer.bytes());
    sizes.push_back(copies_bytes(chunk));
    sizes.push_back(newton_schulz_bytes(chunk));
    for (const OffloadPiece& piece : chunk.pieces) {
      sizes.push_back(piece.bytes);
      sizes.push_back(block_bytes(piece.blocks));
    }
    sizes.push_back(-1);
  }
  return sizes;
}

// A number for the parts of the model that a rank copies into its buffer of snapshots; 0: none.
int copied_parts(const RunPlan& plan, int position) {
  if (!plan.takes_snapshots) return 0;
  RankPlan rank;
  move_to(rank, position, plan);
  const CountedParts parts = counted_parts(rank, plan.mesh);
  return (parts.rest ? 1 : 0) + (parts.experts ? 2 : 0);
}

// Numbers the sizes that ranks hold. Ranks that differ only in cp or ep hold the same.
class Holdings {
 public:
  Holdings(const RunPlan& plan, PlanParts& parts) : plan_(plan), plan_parts_(parts) {}

  // Returns for each dp index the number of its tables and the number of its shards, for the ranks
  // of a stage with this tp index.
  const std::vector<std::pair<int, int>>& of(int pp, int tp) {
    Sizes content = content_of(plan_.model, plan_.pipeline[size_t(pp)]);
    const int ranks = plan_.mesh.dp_at(pp);
    content.push_back(ranks);
    const Sizes& part = part_of(pp, tp);
    content.insert(content.end(), part.begin(), part.end());
    const auto cached = of_content_.find(content);
    if (cached != of_content_.end()) return of_tables_.at({cached->second, ranks});
    RankPlan rank = stored_rank(plan_, position_of(plan_.mesh, {.tp = tp, .pp = pp}), &plan_parts_);
    const int tables = tables_.of(sizes_of_tables(plan_.model, rank));
    of_content_.emplace(std::move(content), tables);
    const auto [found, is_new] = of_tables_.try_emplace({tables, ranks});
    for (int dp = 0; is_new && dp < ranks; ++dp) {
      if (dp > 0) move_along_dp(rank, dp, plan_);
      found->second.emplace_back(tables, shards_.of(sizes_of_shards(rank)));
    }
    return found->second;
  }

 private:
  // How much of a layer and of the vocabulary a tp rank holds. Ranks that hold as much have tables
  // of the same sizes, unless fixed slices with borders of their own cut them, or they have rows of
  // images, which windows read beyond them.
  const Sizes& part_of(int pp, int tp) {
    const auto [found, is_new] = parts_.try_emplace({plan_.mesh.tp_at(pp), tp});
    if (!is_new) return found->second;
    StageShape shape = plan_.shape_at(pp);
    shape.tp_rank = tp;
    const ModelShard shard = shard_model(plan_.model, shape);
    const bool is_apart = shape.slices > 0 || cuts_image_rows(shape.layers);
    // What tp ranks share besides, such as tokens, depends on their number.
    found->second = {shard.heads,      shard.kv_heads,    shard.d_ff, shard.dense_d_ff,
                     shard.vocab_size, is_apart ? tp : 0, shape.tp};
    return found->second;
  }

  const RunPlan& plan_;
  PlanParts& plan_parts_;
  std::map<std::pair<int, int>, Sizes> parts_;  // (tp ranks, index)
  Numbers tables_, shards_;
  std::map<Sizes, int> of_content_;  // (content, part) -> number of the tables
  // (number of the tables, ranks along dp) -> as of()
  std::map<std::pair<int, int>, std::vector<std::pair<int, int>>> of_tables_;
};

// On a mixed cluster a rank may use no more than its own device has.
int64_t lacked_bytes(const RunPlan& plan, int device) {
  if (!plan.hardware || !plan.hardware->is_mixed()) return 0;
  const int64_t own = plan.hardware->all_of_device(device).memory_bytes;
  return own == 0 ? 0 : std::max<int64_t>(0, plan.config.memory.limit_bytes - own);
}

}  // namespace

std::vector<int64_t> content_of(const ModelSpec& model, const RankPlan& rank) {
  std::vector<int64_t> content;
  for (const ChunkTables& chunk : rank.chunks) {
    const std::vector<int64_t> of_stage = content_of(model, chunk.stage);
    content.insert(content.end(), of_stage.begin(), of_stage.end());
    content.push_back(-1);
  }
  return content;
}

void classify_ranks(RunPlan& plan, PlanParts& parts) {
  const Mesh& mesh = plan.mesh;
  Holdings holdings(plan, parts);
  std::vector<std::vector<const std::vector<std::pair<int, int>>*>> held(size_t(mesh.pp));  // [tp]
  for (int pp = 0; pp < mesh.pp; ++pp) {
    for (int tp = 0; tp < mesh.tp_at(pp); ++tp) {
      held[size_t(pp)].push_back(&holdings.of(pp, tp));
    }
  }
  plan.classes.clear();
  plan.class_of.clear();
  // (pp, tables, shards, what is copied into the buffer of snapshots): what decides the memory
  using Kind = std::tuple<int, int, int, int>;
  std::map<Kind, int> first_of_kind;
  std::map<std::pair<Kind, int>, int> numbers;  // (kind, device)
  for (int position = 0; position < mesh.size(); ++position) {
    const MeshCoords at = coords_of(mesh, position);
    const auto [tables, shards] = (*held[size_t(at.pp)][size_t(at.tp)])[size_t(at.dp)];
    const int device = plan.hardware ? plan.hardware->device_of(position) : 0;
    const int number = int(plan.classes.size());
    const Kind kind{at.pp, tables, shards, copied_parts(plan, position)};
    const auto [found, is_new] = numbers.try_emplace({kind, device}, number);
    if (is_new) {
      const int first = first_of_kind.try_emplace(kind, number).first->second;
      plan.classes.push_back({.first = position,
                              .device = device,
                              .memory = {},
                              .same_memory_as = first < number ? first : -1,
                              .lacks_bytes = lacked_bytes(plan, device)});
    }
    ++plan.classes[size_t(found->second)].num_ranks;
    plan.class_of.push_back(found->second);
  }
}

}  // namespace trireme
