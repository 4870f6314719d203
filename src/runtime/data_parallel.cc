#include "runtime/data_parallel.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/hash.h"

namespace trireme {
namespace {

uint64_t hash_of(const TensorRef& tensor) {
  return hash64(std::span(static_cast<const std::byte*>(tensor.data), size_t(tensor.bytes())));
}

}  // namespace

DataParallel::DataParallel(const RankPlan& plan, const RankMemory& memory,
                           const DataParallelGroups& groups, Algorithm algorithm)
    : plan_(plan), memory_(memory), groups_(groups), algorithm_(algorithm) {
  size_t most_buckets = 0;
  size_t most_reduces = 1;
  for (size_t c = 0; c < plan.chunks.size(); ++c) {
    const ChunkTables& chunk = plan.chunks[c];
    const size_t units = size_t(num_units(chunk.stage));
    std::vector<std::vector<Piece>> of_units(units);
    for (const PlacedBucket& placed : chunk.buckets) {
      of_units[size_t(placed.bucket.unit)].push_back(make_piece(int(c), placed));
    }
    std::vector<std::vector<Work>> works(units);
    for (size_t unit = 0; unit < units; ++unit) works[unit].reserve(of_units[unit].size());
    most_buckets += chunk.buckets.size();
    most_reduces += units;
    pieces_.push_back(std::move(of_units));
    unshards_.push_back(std::move(works));
  }
  reduces_.resize(most_reduces);
  for (Reduce& reduce : reduces_) reduce.works.reserve(most_buckets);
  reserve_collectives();
}

DataParallel::Piece DataParallel::make_piece(int chunk, const PlacedBucket& placed) const {
  const ChunkRegions& regions = plan_.memory.chunks[size_t(chunk)];
  const ChunkTables& tables = plan_.chunks[size_t(chunk)];
  const DType compute = tables.tables.params.tensors().front().dtype;
  const DType grad = tables.grad_dtype;
  const int unit = placed.bucket.unit;
  const auto ref = [](void* base, DType dtype, int64_t first, int64_t count) {
    return TensorRef{static_cast<char*>(base) + first * size_of(dtype), dtype, Shape{count}};
  };
  const auto range = [&](void* base, DType dtype, const TableRange& of) {
    return ref(base, dtype, of.begin, of.count);
  };
  Piece piece;
  void* grads =
      zero().shards_grads() ? memory_.unit_grads(chunk, unit) : memory_.at(regions.grad_slots[0]);
  piece.grads = range(grads, grad, placed.bucket.grads());
  piece.grad_shard = range(grads, grad, placed.shard.grads);
  for (int region : regions.grad_slots) {
    piece.stored_grads.push_back(
        ref(memory_.at(region), grad, placed.grad_storage, placed.shard.grads.count));
  }
  piece.is_gathered_in_step = tables.is_gathered_in_step(placed.bucket);
  void* whole = memory_.unit_params(chunk, unit);
  piece.params = range(whole, compute, placed.bucket.params());
  // What was fetched from a file lies where the unit is gathered.
  piece.param_shard = tables.params_in_file ? range(whole, compute, placed.shard.params)
                                            : ref(memory_.at(regions.params), compute,
                                                  placed.param_storage, placed.shard.params.count);
  const bool of_experts = placed.bucket.is_of_experts;
  piece.shards = of_experts ? &groups_.expert_shards : &groups_.shards;
  piece.replicas = of_experts ? &groups_.expert_replicas : &groups_.replicas;
  const ZeroShape& own = of_experts ? plan_.expert_zero : plan_.zero;
  for (int rank = 0; rank < piece.shards->size(); ++rank) {
    const Shard shard = shard_of(placed.bucket, own.num_holders(), rank);
    piece.grad_counts.push_back(shard.grads.count);
    piece.param_counts.push_back(shard.params.count);
  }
  return piece;
}

template <typename Visit>
void DataParallel::for_each_piece(const Action& action, Visit&& visit) const {
  const std::vector<std::vector<Piece>>& units = pieces_[size_t(action.chunk)];
  const int end = action.num_units == 0 ? int(units.size()) : action.first_unit + action.num_units;
  for (int unit = action.first_unit; unit < end; ++unit) {
    for (const Piece& piece : units[size_t(unit)]) visit(unit, piece);
  }
}

// Leaves out what is never trained.
template <typename Visit>
void DataParallel::for_each_gradient(const Action& action, Visit&& visit) const {
  for_each_piece(action, [&](int, const Piece& piece) {
    if (piece.grads.num_elements() > 0) visit(piece);
  });
}

// A leaf's shard lands where it is stored, unless it is to be added there.
TensorRef DataParallel::reduced(const Piece& piece, const Action& action) const {
  const bool is_stored = zero().shards_grads() && !action.accumulate;
  return is_stored ? piece.stored_grads[size_t(action.grad_slot)] : piece.grad_shard;
}

TensorRef DataParallel::of_direction(const Piece& piece) const {
  if (plan_.joins_directions_first) return piece.grads;
  return zero().shards_grads() ? piece.stored_grads[0] : piece.grad_shard;
}

CollectiveArgs DataParallel::sum(const TensorRef& grads) const {
  return {.collective = Collective::AllReduce,
          .in = grads,
          .out = grads,
          .op = ReduceOp::Sum,
          .algorithm = algorithm_};
}

CollectiveArgs DataParallel::sum_to_shards(const Piece& piece, const TensorRef& into) const {
  return {.collective = Collective::ReduceScatter,
          .in = piece.grads,
          .out = into,
          .op = ReduceOp::Sum,
          .algorithm = algorithm_,
          .counts = piece.grad_counts};
}

CollectiveArgs DataParallel::gather(const Piece& piece) const {
  return {.collective = Collective::AllGather,
          .in = piece.param_shard,
          .out = piece.params,
          .algorithm = algorithm_,
          .counts = piece.param_counts};
}

void DataParallel::reserve_collectives() {
  for (const Action& action : plan_.program) {
    if (action.kind == ActionKind::ReduceGrad) reserve_reduce(action);
    if (action.kind == ActionKind::JoinTiedTable && action.peer != plan_.coords.pp) {
      groups_.tied.reserve(tied_grad(action.chunk));
    }
    if (action.kind == ActionKind::JoinDirections) {
      for_each_gradient(
          action, [&](const Piece& piece) { groups_.mirror.reserve(sum(of_direction(piece))); });
    }
    if (action.kind == ActionKind::Unshard) {
      for_each_piece(action,
                     [&](int, const Piece& piece) { piece.shards->reserve(gather(piece)); });
    }
  }
}

void DataParallel::reserve_reduce(const Action& action) {
  for_each_gradient(action, [&](const Piece& piece) {
    if (zero().level == 0) return piece.replicas->reserve(sum(piece.grads));
    piece.shards->reserve(sum_to_shards(piece, piece.grad_shard));
    piece.replicas->reserve(sum(piece.grad_shard));
  });
}

void DataParallel::start_reduce(const Action& action) {
  TRIREME_CHECK(num_reduces_ < reduces_.size(), "more reductions under way than units");
  Reduce& reduce = reduces_[(first_reduce_ + num_reduces_++) % reduces_.size()];
  reduce.action = action;
  reduce.works.clear();
  for_each_gradient(action, [&](const Piece& piece) {
    if (addend_hashes_ != nullptr) addend_hashes_->push_back(hash_of(piece.grads));
    reduce.works.push_back(zero().level == 0
                               ? piece.replicas->start(sum(piece.grads))
                               : piece.shards->start(sum_to_shards(piece, reduced(piece, action))));
  });
}

void DataParallel::finish_reduces(Ctx& ctx, int count) {
  for (; count > 0; --count) {
    finish(ctx, reduces_[first_reduce_]);
    first_reduce_ = (first_reduce_ + 1) % reduces_.size();
    --num_reduces_;
  }
}

void DataParallel::finish(Ctx& ctx, Reduce& reduce) {
  size_t bucket = 0;
  for_each_gradient(reduce.action, [&](const Piece& piece) {
    wait(reduce.works[bucket++]);
    const TensorRef shard = reduced(piece, reduce.action);
    if (zero().level > 0) {  // copies of the shard (HSDP)
      const int64_t begin_ns = monotonic_ns();
      piece.replicas->run(sum(shard));
      waited_ns_ += monotonic_ns() - begin_ns;
    }
    if (zero().shards_grads() && reduce.action.accumulate && shard.num_elements() > 0) {
      ctx.kernels.add(ctx.stream, {shard, piece.stored_grads[size_t(reduce.action.grad_slot)]});
    }
  });
}

void DataParallel::join_directions(const Action& action) {
  const int64_t begin_ns = monotonic_ns();
  for_each_gradient(action,
                    [&](const Piece& piece) { groups_.mirror.run(sum(of_direction(piece))); });
  waited_ns_ += monotonic_ns() - begin_ns;
}

TensorRef DataParallel::tied_grad(int chunk) const {
  const DType grad = plan_.chunks[size_t(chunk)].grad_dtype;
  for (const OwnedParam& owned : plan_.chunks[size_t(chunk)].owned) {
    if (owned.name != "embedding.tokens") continue;
    const int region = plan_.memory.chunks[size_t(chunk)].grad_slots[0];
    return memory_.elements(region, grad, owned.grad_begin, owned.count);
  }
  return {nullptr, grad, Shape{0}};
}

void DataParallel::join_tied_table(Ctx& ctx, const Action& action) {
  const TensorRef grad = tied_grad(action.chunk);
  if (action.peer != plan_.coords.pp) {
    const int64_t begin_ns = monotonic_ns();
    groups_.tied.run(grad);
    waited_ns_ += monotonic_ns() - begin_ns;
    return;
  }
  if (grad.num_elements() == 0) return;
  for (size_t other = 0; other < plan_.chunks.size(); ++other) {
    if (!plan_.chunks[other].stage.has_head) continue;
    const TensorRef head = tied_grad(int(other));
    ctx.kernels.add(ctx.stream, {head, grad});
    std::memcpy(head.data, grad.data, size_t(grad.bytes()));
  }
}

void DataParallel::start_unshard(const Action& action, Gather when) {
  for_each_piece(action, [&](int unit, const Piece& piece) {
    if (piece.params.num_elements() == 0) return;
    if (when == Gather::InStep && !piece.is_gathered_in_step) return;
    unshards_[size_t(action.chunk)][size_t(unit)].push_back(piece.shards->start(gather(piece)));
  });
}

void DataParallel::finish_unshard(const Action& action) {
  for_each_piece(action, [&](int unit, const Piece&) {
    std::vector<Work>& works = unshards_[size_t(action.chunk)][size_t(unit)];
    for (Work& work : works) wait(work);
    works.clear();
  });
}

void DataParallel::finish_all_unshards() {
  for (std::vector<std::vector<Work>>& chunk : unshards_) {
    for (std::vector<Work>& works : chunk) {
      for (Work& work : works) wait(work);
      works.clear();
    }
  }
}

void DataParallel::wait(Work& work) {
  const int64_t begin_ns = monotonic_ns();
  work.wait();
  waited_ns_ += monotonic_ns() - begin_ns;
}

}  // namespace trireme
