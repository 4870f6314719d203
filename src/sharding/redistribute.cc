#include "sharding/redistribute.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "collectives/move_collective.h"
#include "sharding/halo.h"

namespace trireme {
namespace {

using Kind = Placement::Kind;

constexpr int kMaxInlineRanks = 64;

// A tensor seen along one dim: `outer` rows of `extent` pieces of `inner_bytes`.
struct Along {
  int64_t outer = 1;
  int64_t extent = 1;
  int64_t inner_bytes = 1;
};

Along along(const Shape& shape, int dim, DType dtype) {
  Along a{1, shape[dim], size_of(dtype)};
  for (int i = 0; i < dim; ++i) a.outer *= shape[i];
  for (int i = dim + 1; i < shape.rank(); ++i) a.inner_bytes *= shape[i];
  return a;
}

// target[:, t_begin : t_begin + count] = source[:, s_begin : s_begin + count] along one dim.
void copy_range(void* target, const Along& t, int64_t t_begin, const void* source, const Along& s,
                int64_t s_begin, int64_t count) {
  const int64_t bytes = count * t.inner_bytes;
  if (bytes == 0) return;
  auto* to = static_cast<std::byte*>(target) + t_begin * t.inner_bytes;
  const auto* from = static_cast<const std::byte*>(source) + s_begin * s.inner_bytes;
  for (int64_t row = 0; row < t.outer; ++row) {
    std::memmove(to + row * t.extent * t.inner_bytes, from + row * s.extent * s.inner_bytes,
                 size_t(bytes));
  }
}

Along with_extent(Along a, int64_t extent) {
  a.extent = extent;
  return a;
}

// The element counts of every rank's part of a dim.
class Parts {
 public:
  Parts(int64_t extent, int size, int64_t elements_per_index) {
    TRIREME_CHECK(size <= kMaxInlineRanks, "a mesh axis has at most 64 ranks here");
    size_ = size;
    for (int r = 0; r < size; ++r) {
      begin_[size_t(r)] = balanced_begin(extent, size, r);
      extent_[size_t(r)] = balanced_count(extent, size, r);
      elements_[size_t(r)] = extent_[size_t(r)] * elements_per_index;
    }
  }
  int64_t begin(int rank) const { return begin_[size_t(rank)]; }
  int64_t extent(int rank) const { return extent_[size_t(rank)]; }
  std::span<const int64_t> elements() const { return {elements_.data(), size_t(size_)}; }

 private:
  int size_ = 0;
  std::array<int64_t, kMaxInlineRanks> begin_;
  std::array<int64_t, kMaxInlineRanks> extent_;
  std::array<int64_t, kMaxInlineRanks> elements_;
};

struct Change {
  Group& group;
  const Shape& global;
  TensorRef x;
  TensorRef y;
  std::span<std::byte> scratch;
  const CallSite& site;

  TensorRef flat(void* data, int64_t elements) const { return {data, x.dtype, Shape{elements}}; }
  TensorRef flat(const TensorRef& t) const { return flat(t.data, t.num_elements()); }
};

void copy(const Change& c) {
  if (c.x.data != c.y.data && c.x.bytes() > 0) {
    std::memcpy(c.y.data, c.x.data, size_t(c.x.bytes()));
  }
}

void keep_on_rank_0(const Change& c) {
  if (c.group.rank() == 0) return copy(c);
  if (c.y.bytes() > 0) std::memset(c.y.data, 0, size_t(c.y.bytes()));
}

void slice(const Change& c, int dim) {
  const Along whole = along(c.x.shape, dim, c.x.dtype);
  const Along part = along(c.y.shape, dim, c.y.dtype);
  copy_range(c.y.data, part, 0, c.x.data, whole,
             balanced_begin(whole.extent, c.group.size(), c.group.rank()), part.extent);
}

void surround_with_zeros(const Change& c, int dim) {
  const Along part = along(c.x.shape, dim, c.x.dtype);
  const Along whole = along(c.y.shape, dim, c.y.dtype);
  if (c.y.bytes() > 0) std::memset(c.y.data, 0, size_t(c.y.bytes()));
  copy_range(c.y.data, whole, balanced_begin(whole.extent, c.group.size(), c.group.rank()),
             c.x.data, part, 0, part.extent);
}

void gather(const Change& c, int dim) {
  const Along whole = along(c.y.shape, dim, c.y.dtype);
  const Parts parts(whole.extent, c.group.size(),
                    whole.outer * whole.inner_bytes / size_of(c.x.dtype));
  TensorRef gathered = c.flat(c.y);
  if (whole.outer > 1) gathered.data = c.scratch.data();
  c.group.run({.collective = Collective::AllGather,
               .in = c.flat(c.x),
               .out = gathered,
               .counts = parts.elements()},
              c.site);
  if (whole.outer <= 1) return;
  const std::byte* block = c.scratch.data();
  for (int r = 0; r < c.group.size(); ++r) {
    copy_range(c.y.data, whole, parts.begin(r), block, with_extent(whole, parts.extent(r)), 0,
               parts.extent(r));
    block += parts.elements()[size_t(r)] * size_of(c.x.dtype);
  }
}

// Packs the parts of `source` along dim one after the other. Returns their address.
void* packed(const Change& c, const Along& whole, const Parts& parts) {
  if (whole.outer <= 1) return c.x.data;
  std::byte* block = c.scratch.data();
  for (int r = 0; r < c.group.size(); ++r) {
    copy_range(block, with_extent(whole, parts.extent(r)), 0, c.x.data, whole, parts.begin(r),
               parts.extent(r));
    block += parts.elements()[size_t(r)] * size_of(c.x.dtype);
  }
  return c.scratch.data();
}

void reduce_to_shards(const Change& c, int dim) {
  const Along whole = along(c.x.shape, dim, c.x.dtype);
  const Parts parts(whole.extent, c.group.size(),
                    whole.outer * whole.inner_bytes / size_of(c.x.dtype));
  c.group.run({.collective = Collective::ReduceScatter,
               .in = c.flat(packed(c, whole, parts), c.x.num_elements()),
               .out = c.flat(c.y),
               .algorithm = algorithm_of_move(Collective::ReduceScatter),
               .counts = parts.elements()},
              c.site);
}

// Rank r gets this rank's part of its range of dim `to`. The result of this rank consists of all
// ranges of dim `from`.
void exchange_shards(const Change& c, int from, int to) {
  const int64_t element = size_of(c.x.dtype);
  const Along mine = along(c.x.shape, to, c.x.dtype);
  const Parts sent(mine.extent, c.group.size(), mine.outer * mine.inner_bytes / element);
  const Along result = along(c.y.shape, from, c.y.dtype);
  const Parts received(result.extent, c.group.size(), result.outer * result.inner_bytes / element);
  TensorRef out = c.flat(c.y);
  // The scratch holds first the sent parts, then the received ones.
  const bool unpacks = result.outer > 1;
  const int64_t sent_bytes = mine.outer > 1 ? c.x.bytes() : 0;
  if (unpacks) out.data = c.scratch.data() + sent_bytes;
  c.group.run({.collective = Collective::AllToAll,
               .in = c.flat(packed(c, mine, sent), c.x.num_elements()),
               .out = out,
               .counts = sent.elements(),
               .recv_counts = received.elements()},
              c.site);
  if (!unpacks) return;
  const std::byte* block = c.scratch.data() + sent_bytes;
  for (int r = 0; r < c.group.size(); ++r) {
    copy_range(c.y.data, result, received.begin(r), block, with_extent(result, received.extent(r)),
               0, received.extent(r));
    block += received.elements()[size_t(r)] * element;
  }
}

void reduce_to_all(const Change& c) {
  copy(c);
  c.group.run({.collective = Collective::AllReduce,
               .in = c.flat(c.y),
               .out = c.flat(c.y),
               .algorithm = algorithm_of_move(Collective::AllReduce)},
              c.site);
}

}  // namespace

void redistribute(Group& group, const Redistribution& change, const Shape& global, TensorRef x,
                  TensorRef y, std::span<std::byte> scratch, CallSite site) {
  const auto [from, to] = change;
  TRIREME_CHECK(x.shape == local_shape(global, from, group.size(), group.rank()) &&
                    y.shape == local_shape(global, to, group.size(), group.rank()),
                fmt::format("redistribute {} -> {} of {} over {} ranks: {} -> {} are not its parts",
                            to_string(from), to_string(to), global.to_string(), group.size(),
                            x.shape.to_string(), y.shape.to_string()));
  TRIREME_CHECK(
      int64_t(scratch.size()) >= redistribute_scratch_bytes(change, global, x.dtype, group.size()),
      "redistribute needs more scratch");
  if (to.kind == Kind::Halo) return fetch_halo(group, to, global, x, y, scratch, site);
  if (from.kind == Kind::Halo) return return_halo(group, from, global, x, y, scratch, site);
  const Change c{group, global, x, y, scratch, site};
  const bool whole = from.kind == Kind::Replicate || from.kind == Kind::Invariant;
  switch (to.kind) {
    case Kind::Replicate:
    case Kind::Invariant:
      if (whole) return copy(c);
      return from.kind == Kind::Shard ? gather(c, from.dim) : reduce_to_all(c);
    case Kind::Shard:
      if (whole) return slice(c, to.dim);
      if (from.kind == Kind::Partial) return reduce_to_shards(c, to.dim);
      return from.dim == to.dim ? copy(c) : exchange_shards(c, from.dim, to.dim);
    case Kind::Partial:
      if (whole) return keep_on_rank_0(c);
      return from.kind == Kind::Shard ? surround_with_zeros(c, from.dim) : copy(c);
    case Kind::Halo:
      return;
  }
}

}  // namespace trireme
