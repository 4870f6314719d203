#include "compile/tied_join.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "graph/axis_part.h"
#include "schema/norm_chunk.h"
#include "schema/placement.h"

namespace trireme {
namespace {

int num_shards(const ZeroShape& zero) { return zero.level == 0 ? 1 : zero.degree; }

// Ranks of dp that have the same part of the table.
int num_copies(const RunPlan& plan, int place) {
  return plan.mesh.dp_at(place) / num_shards(plan.pipeline[size_t(place)].zero);
}

// The elements of the table that a tp rank of this shape has.
TableRange rows_of(const ModelSpec& model, const StageShape& shape) {
  const AxisPart rows = part_of(dim_of(Axis::Vocabulary, model), shard_model(model, shape));
  return {rows.begin * model.d_model, rows.count * model.d_model};
}

// The table is a bucket of its own (memory/bucket.h), and no border is moved for it.
Bucket bucket_of(const TableRange& rows) {
  return {.tensors = {{.num_elements = rows.count,
                       .grad_begin = rows.begin,
                       .blocks = num_norm_chunks(rows.count)}}};
}

TiedEnd end_at(const RunPlan& plan, int place, int num_groups) {
  const ZeroShape& zero = plan.pipeline[size_t(place)].zero;
  TiedEnd end{.place = place,
              .shards = num_shards(zero),
              .sharing = num_copies(plan, place) / num_groups,
              .borders = {0}};
  StageShape shape = plan.shape_at(place);
  for (shape.tp_rank = 0; shape.tp_rank < shape.tp; ++shape.tp_rank) {
    const TableRange rows = rows_of(plan.model, shape);
    const Bucket bucket = bucket_of(rows);
    for (int index = 0; index < end.shards; ++index) {
      const int holders = zero.level == 0 ? 1 : zero.num_holders();
      const TableRange shard = rows.count == 0 ? rows : shard_ranges(bucket, holders, index).grads;
      for (int copy = 0; copy < end.sharing; ++copy) {
        end.borders.push_back(shard.begin + balanced_begin(shard.count, end.sharing, copy + 1));
      }
    }
  }
  return end;
}

}  // namespace

std::optional<TiedJoin> tied_join(const RunPlan& plan) {
  const int first = plan.place_of(0), last = plan.place_of(num_stages(plan.schedule) - 1);
  if (!plan.model.trains_tied_table() || first == last) return std::nullopt;
  TiedJoin join;
  join.num_groups = std::gcd(num_copies(plan, first), num_copies(plan, last));
  join.ends = {end_at(plan, first, join.num_groups), end_at(plan, last, join.num_groups)};
  return join;
}

std::optional<TiedShare> TiedJoin::share_of(const MeshCoords& coords) const {
  for (int index = 0; index < 2; ++index) {
    const TiedEnd& end = ends[size_t(index)];
    if (end.place != coords.pp) continue;
    TiedShare share{.end = index};
    const int copy = coords.dp / end.shards;
    share.group = copy / end.sharing;
    share.copy = copy % end.sharing;
    const int first = (coords.tp * end.shards + coords.dp % end.shards) * end.sharing;
    share.piece = first + share.copy;
    for (int piece = first; piece < first + end.sharing; ++piece) {
      share.counts.push_back(end.piece(piece).count);
    }
    share.part = {end.piece(first).begin,
                  std::accumulate(share.counts.begin(), share.counts.end(), int64_t{0})};
    return share;
  }
  return std::nullopt;
}

std::vector<TiedPair> TiedJoin::pairs() const {
  std::vector<TiedPair> pairs;
  std::array<std::vector<std::set<int>>, 2> rounds;  // [end][piece] in which it is in a pair
  for (size_t i = 0; i < 2; ++i) rounds[i].resize(size_t(ends[i].num_pieces()));
  for (int a = 0, b = 0; a < ends[0].num_pieces() && b < ends[1].num_pieces();) {
    const TableRange of_a = ends[0].piece(a), of_b = ends[1].piece(b);
    const int64_t begin = std::max(of_a.begin, of_b.begin);
    const int64_t end = std::min(of_a.end(), of_b.end());
    if (end > begin) {
      std::set<int>& taken_by_a = rounds[0][size_t(a)];
      std::set<int>& taken_by_b = rounds[1][size_t(b)];
      int round = 0;
      while (taken_by_a.contains(round) || taken_by_b.contains(round)) ++round;
      taken_by_a.insert(round);
      taken_by_b.insert(round);
      pairs.push_back({{a, b}, {begin, end - begin}, round});
    }
    of_a.end() <= of_b.end() ? ++a : ++b;
  }
  return pairs;
}

}  // namespace trireme
