#pragma once

// The forward pass of attention for one unit of work, for *_cpu.cc files only: a block of queries
// of all heads that share a kv head, and all keys that they see, tile by tile.

#include <atomic>
#include <cmath>
#include <limits>

#include "kernels/attention/row_attention.h"

namespace trireme::TRIREME_ISA {
namespace {

// The reference value of the exponentials follows the maximum of the scores only when that has
// grown by this much, in powers of two. So sums stay exact enough and rows are rarely rescaled.
constexpr float kSlack = 8.0f;
// If at most so many heads share a kv head, a single query multiplies keys and values in place.
// Otherwise each tile is packed once for all heads.
constexpr int64_t kHeadsInPlace = 2;
constexpr float kNoReference = -std::numeric_limits<float>::infinity();  // no key was seen

// The memory of one thread for a block of queries of all heads that share a kv head.
template <typename U>
struct ForwardState {
  uint32_t* k_panels;
  uint32_t* v_panels;
  float* scores;     // [kGroupRows][kTile]
  U* probabilities;  // [kGroupRows][kTile]
  U* q_copy;         // [row][P], if rows of q cannot be read in place
  float* largest;    // [head of the block][kLanes]: scores without the scale, if they are reported
  float* reference;  // [row]: reference value of the exponentials
  float* sum;        // [row][kLanes]: sums of exponentials by lane
  float* out;        // [row][width of the values, in whole vectors]
};

template <typename T>
struct Forward {
  using U = ComputeType<T>;
  static constexpr int64_t kElements = kStepElements<U>;
  static constexpr int64_t kTileSteps = kTile / kElements;

  const AttentionForwardArgs& args;
  const AttentionShape shape;
  const int64_t block_queries;

  int64_t num_blocks() const { return num_steps_of(shape.q_len, block_queries); }
  int64_t num_units() const { return num_blocks() * shape.num_sequences * shape.num_kv_heads; }
  void run_unit(int64_t unit, std::byte* workspace) const;

 private:
  // Queries first .. first + count of heads head .. head + num_heads of one sequence.
  struct Block {
    int64_t sequence, kv_head;
    int64_t head, num_heads;
    int64_t first, count;
    int64_t first_tile;  // the first key of the first tile that a query sees
  };
  // At most kGroupRows rows with the keys of one tile: queries of one head, or one query of several
  // heads.
  struct Group {
    int64_t head, query;    // of the first row
    int64_t row, count;     // row: index of the first one in the state
    int64_t key, num_keys;  // the tile; num_keys: how many of its keys the last query sees
    bool is_one_query = false;

    int64_t query_of(int64_t r) const { return is_one_query ? query : query + r; }
    int64_t head_of(int64_t r) const { return is_one_query ? head + r : head; }
  };

  int64_t num_visible(int64_t query) const { return shape.num_visible(query); }
  int64_t first_key(const Block& block, int64_t query) const {
    return args.window ? args.window.first_key(block.sequence * shape.q_len + query) : 0;
  }
  // These return keys and values of the block's kv head, from `key` on.
  const T* keys_from(const Block& block, int64_t key) const {
    return args.k_T_KD.row<const T>(block.sequence * shape.kv_len + key) +
           block.kv_head * shape.head_dim;
  }
  const T* values_from(const Block& block, int64_t key) const {
    return args.v_T_KD.row<const T>(block.sequence * shape.kv_len + key) +
           block.kv_head * shape.out_dim();
  }
  LeftRows queries_of(const Group& group, const Block& block, const ForwardState<U>& s) const;
  ForwardState<U> start(const Block& block, std::byte* workspace) const;
  void attend(const Block& block, int64_t key, const ForwardState<U>& s) const;
  void attend_in_place(const Block& block, int64_t key, const ForwardState<U>& s) const;
  void softmax_tile(const Group& group, const Block& block, const ForwardState<U>& s) const;
  void attend_group(const Group& group, const Block& block, const ForwardState<U>& s) const;
  template <int kVectors, bool kMasked>
  void softmax_row(const Group& group, const Block& block, int64_t r,
                   const ForwardState<U>& s) const;
  template <int kVectors, bool kMasked>
  void softmax(const Group& group, const Block& block, const ForwardState<U>& s) const;
  void finish(const Block& block, const ForwardState<U>& s) const;
};

template <typename T>
ForwardState<ComputeType<T>> Forward<T>::start(const Block& block, std::byte* workspace) const {
  const int64_t head_steps = num_steps_of(shape.head_dim, kElements);
  const int64_t width = padded_dim(shape.head_dim), out_width = padded_dim(shape.out_dim());
  const int64_t rows = block.num_heads * block.count;
  WorkspaceCursor cursor(workspace);
  ForwardState<U> s;
  s.k_panels = cursor.take<uint32_t>(head_steps * kTile);
  s.v_panels = cursor.take<uint32_t>(num_dim_panels(shape.out_dim()) * kTileSteps * kPanelCols);
  s.scores = cursor.take<float>(kGroupRows * kTile);
  s.probabilities = cursor.take<U>(kGroupRows * kTile);
  s.reference = cursor.take<float>(rows);
  s.sum = cursor.take<float>(rows * kLanes);
  s.out = cursor.take<float>(rows * out_width);
  s.q_copy = cursor.take<U>(reads_in_place<T>(shape.head_dim) ? 0 : rows * width);
  const int64_t num_reported = args.max_H ? block.num_heads : 0;
  s.largest = cursor.take<float>(num_reported * kLanes);
  std::fill_n(s.largest, num_reported * kLanes, -std::numeric_limits<float>::infinity());
  std::fill_n(s.reference, rows, kNoReference);
  std::fill_n(s.sum, rows * kLanes, 0.0f);
  std::fill_n(s.out, rows * out_width, 0.0f);
  return s;
}

// Turns a row of scores into exponentials; its sum and output are rescaled to a new reference value
// if necessary. Vectors after kVectors hold no key that the row sees, so they would add zeros.
template <typename T>
template <int kVectors, bool kMasked>
TRIREME_INLINE void Forward<T>::softmax_row(const Group& group, const Block& block, int64_t r,
                                            const ForwardState<U>& s) const {
  const int64_t row = group.row + r;
  const int64_t unseen = first_key(block, group.query_of(r)) - group.key;
  if (kMasked && unseen >= group.num_keys) [[unlikely]] {  // no reference value may exist yet
    for (int64_t v = 0; v < kVectors; ++v) {
      store_operand(s.probabilities + r * kTile + v * kLanes, zeros());
    }
    return;
  }
  const F32x16 lowest = broadcast(-std::numeric_limits<float>::infinity());
  const F32x16 to_powers_of_two = broadcast(shape.scale * kLog2E);
  F32x16 x[kVectors];
#pragma GCC unroll 4
  for (int64_t v = 0; v < kVectors; ++v) {
    x[v] = load(s.scores + r * kTile + v * kLanes);
    if constexpr (kMasked) {
      const int64_t visible = num_visible(group.query_of(r)) - group.key - v * kLanes;
      const uint32_t count = uint32_t(std::clamp<int64_t>(visible, 0, kLanes));
      x[v] = select(lane_indices() < broadcast_u32(count), x[v], lowest);
      if (unseen > v * kLanes) [[unlikely]] {
        const uint32_t before = uint32_t(std::min(unseen - v * kLanes, kLanes));
        x[v] = select(lane_indices() < broadcast_u32(before), lowest, x[v]);
      }
    }
  }
  F32x16 greatest = x[0];
#pragma GCC unroll 4
  for (int64_t v = 1; v < kVectors; ++v) greatest = max(greatest, x[v]);
  if (args.max_H) [[unlikely]] {
    float* largest = s.largest + (group.head_of(r) - block.head) * kLanes;
    store(largest, max(load(largest), greatest));
  }
  greatest = greatest * to_powers_of_two;
  F32x16 sum = load(s.sum + row * kLanes);
  if (any_greater(greatest, broadcast(s.reference[row] + kSlack))) [[unlikely]] {
    const float reference = reduce_max(greatest);
    const F32x16 shrink = exp2_of<float>(broadcast(s.reference[row] - reference));
    s.reference[row] = reference;
    sum = sum * shrink;
    const int64_t width = padded_dim(shape.out_dim());
    float* out = s.out + row * width;
    for (int64_t d = 0; d < width; d += kLanes) store(out + d, load(out + d) * shrink);
  }
  const F32x16 shift = broadcast(-s.reference[row]);
#pragma GCC unroll 4
  for (int64_t v = 0; v < kVectors; ++v) x[v] = exp2_of<T>(fma(x[v], to_powers_of_two, shift));
  F32x16 terms = x[0];
  if constexpr (kVectors > 1) terms = terms + x[1];
  if constexpr (kVectors == 3) terms = terms + x[2];
  if constexpr (kVectors == 4) terms = terms + (x[2] + x[3]);
  store(s.sum + row * kLanes, sum + terms);
  if (args.dropout.probability > 0.0f) [[unlikely]] {
    const DropoutOfHead dropout = dropout_of(args.dropout, block.sequence, group.head_of(r));
    const int64_t query = shape.kv_len - shape.q_len + group.query_of(r);
    for (int64_t v = 0; v < kVectors; ++v) {
      x[v] = x[v] * keep_factors(dropout, query, false, group.key + v * kLanes);
    }
  }
#pragma GCC unroll 4
  for (int64_t v = 0; v < kVectors; ++v) {
    store_operand(s.probabilities + r * kTile + v * kLanes, x[v]);
  }
}

template <typename T>
template <int kVectors, bool kMasked>
void Forward<T>::softmax(const Group& group, const Block& block, const ForwardState<U>& s) const {
  for (int64_t r = 0; r < group.count; ++r) softmax_row<kVectors, kMasked>(group, block, r, s);
}

template <typename T>
void Forward<T>::softmax_tile(const Group& group, const Block& block,
                              const ForwardState<U>& s) const {
  const bool whole = num_visible(group.query) - group.key >= kTile &&
                     first_key(block, group.query_of(group.count - 1)) <= group.key;
  static_assert(kTileVectors == 4);
  switch (num_steps_of(group.num_keys, kLanes)) {
    case 1:
      softmax<1, true>(group, block, s);
      break;
    case 2:
      softmax<2, true>(group, block, s);
      break;
    case 3:
      softmax<3, true>(group, block, s);
      break;
    default:
      whole ? softmax<4, false>(group, block, s) : softmax<4, true>(group, block, s);
  }
}

// The queries of a group. If they cannot be read in place, the first tile copies them.
template <typename T>
LeftRows Forward<T>::queries_of(const Group& group, const Block& block,
                                const ForwardState<U>& s) const {
  const int64_t width = padded_dim(shape.head_dim);
  U* const copy = s.q_copy + group.row * width;
  if (group.key > block.first_tile && !reads_in_place<T>(shape.head_dim)) {
    return {reinterpret_cast<const char*>(copy), width * int64_t(sizeof(U))};
  }
  const T* const q = args.q_T_HD.row<const T>(block.sequence * shape.q_len + group.query) +
                     group.head * shape.head_dim;
  const int64_t stride = group.is_one_query ? shape.head_dim : args.q_T_HD.stride;
  return left_rows(q, stride, group.count, shape.head_dim, copy);
}

template <typename T>
void Forward<T>::attend_group(const Group& group, const Block& block,
                              const ForwardState<U>& s) const {
  const LeftRows q = queries_of(group, block, s);
  if (first_key(block, group.query) >= group.key + group.num_keys) return;  // sees none of the tile
  score_product<U>(q, group.count, s.k_panels, num_steps_of(shape.head_dim, kElements), 0,
                   group.num_keys, s.scores);
  softmax_tile(group, block, s);
  const LeftRows p{reinterpret_cast<const char*>(s.probabilities), kTile * int64_t(sizeof(U))};
  value_product<U>(p, sizeof(float), group.count, s.v_panels, kTileSteps,
                   num_steps_of(group.num_keys, kElements), shape.out_dim(),
                   s.out + group.row * padded_dim(shape.out_dim()));
}

// Does what attend() does for a block of one query and at most kHeadsInPlace heads, without packing
// keys and values.
template <typename T>
void Forward<T>::attend_in_place(const Block& block, int64_t key, const ForwardState<U>& s) const {
  const int64_t num_keys = std::min(kTile, num_visible(block.first) - key);
  if (first_key(block, block.first) >= key + num_keys) return;  // sees none of the tile
  const T* k = keys_from(block, key);
  const T* v = values_from(block, key);
  const int64_t width = padded_dim(shape.out_dim());
  prefetch_rows(v, args.v_T_KD.stride, num_keys, shape.out_dim());
  for (int64_t h = 0; h < block.num_heads; ++h) {
    const Group group{.head = block.head + h,
                      .query = block.first,
                      .row = h,
                      .count = 1,
                      .key = key,
                      .num_keys = num_keys,
                      .is_one_query = true};
    row_scores(queries_of(group, block, s).data, k, args.k_T_KD.stride, num_keys, shape.head_dim,
               s.scores);
    softmax_tile(group, block, s);
    if (h == 0) {
      const int64_t num_next = std::min(kTile, num_visible(block.first) - key - kTile);
      prefetch_rows(k + kTile * args.k_T_KD.stride, args.k_T_KD.stride, num_next, shape.head_dim);
    }
    row_values(s.probabilities, v, args.v_T_KD.stride, num_keys, shape.out_dim(),
               s.out + h * width);
  }
}

template <typename T>
void Forward<T>::attend(const Block& block, int64_t key, const ForwardState<U>& s) const {
  const int64_t last_query = block.first + block.count - 1;
  const int64_t num_keys = std::min(kTile, num_visible(last_query) - key);
  const MatrixRef& k_T_KD = args.k_T_KD;
  const MatrixRef& v_T_KD = args.v_T_KD;
  const T* k = keys_from(block, key);
  const T* v = values_from(block, key);
  pack_columns(k, k_T_KD.stride, num_keys, shape.head_dim, s.k_panels);
  pack_steps(v, v_T_KD.stride, num_keys, shape.out_dim(), kTileSteps, s.v_panels);
  const int64_t num_next = std::min(kTile, num_visible(last_query) - key - kTile);
  prefetch_rows(k + kTile * k_T_KD.stride, k_T_KD.stride, num_next, shape.head_dim);
  prefetch_rows(v + kTile * v_T_KD.stride, v_T_KD.stride, num_next, shape.out_dim());
  if (block.count == 1) {
    for (int64_t h = 0; h < block.num_heads; h += kGroupRows) {
      attend_group({.head = block.head + h,
                    .query = block.first,
                    .row = h,
                    .count = std::min(kGroupRows, block.num_heads - h),
                    .key = key,
                    .num_keys = num_keys,
                    .is_one_query = true},
                   block, s);
    }
    return;
  }
  // Earlier queries see no key of the tile.
  const int64_t first_seeing = std::max<int64_t>(0, key - num_visible(block.first) + 1);
  for (int64_t h = 0; h < block.num_heads; ++h) {
    for (int64_t i = first_seeing / kGroupRows * kGroupRows; i < block.count; i += kGroupRows) {
      const int64_t count = std::min(kGroupRows, block.count - i);
      attend_group({.head = block.head + h,
                    .query = block.first + i,
                    .row = h * block.count + i,
                    .count = count,
                    .key = key,
                    .num_keys = std::min(kTile, num_visible(block.first + i + count - 1) - key)},
                   block, s);
    }
  }
}

// Raises `at` to x. Other threads do the same at the same time.
void raise(float& at, float x) {
  std::atomic_ref<float> shared(at);
  float before = shared.load(std::memory_order_relaxed);
  while (before < x && !shared.compare_exchange_weak(before, x, std::memory_order_relaxed)) {
  }
}

template <typename T>
void Forward<T>::finish(const Block& block, const ForwardState<U>& s) const {
  for (int64_t h = 0; args.max_H && h < block.num_heads; ++h) {
    const float largest = reduce_max(load(s.largest + h * kLanes)) * shape.scale;
    raise(static_cast<float*>(args.max_H.data)[block.head + h], largest);
  }
  const int64_t width = padded_dim(shape.out_dim());
  for (int64_t row = 0; row < block.num_heads * block.count; ++row) {
    const int64_t head = block.head + row / block.count;
    const int64_t token = block.sequence * shape.q_len + block.first + row % block.count;
    const float sum = reduce_sum(load(s.sum + row * kLanes));
    const bool sees_none = args.window && s.reference[row] == kNoReference;
    const F32x16 inverse = sees_none ? zeros() : broadcast(1.0f / sum);
    T* out = args.out_T_HD.row<T>(token) + head * shape.out_dim();
    for (int64_t d = 0; d < shape.out_dim(); d += kLanes) {
      store_row(out + d, load(s.out + row * width + d) * inverse, shape.out_dim() - d);
    }
    if (args.lse_HT) {
      float* lse_HT = static_cast<float*>(args.lse_HT.data);
      lse_HT[head * shape.num_sequences * shape.q_len + token] =
          s.reference[row] * kLn2 + ::logf(sum);
    }
  }
}

template <typename T>
void Forward<T>::run_unit(int64_t unit, std::byte* workspace) const {
  // Blocks that see the most keys come first, so that the last tiles of a job are small ones.
  const int64_t num_pairs = shape.num_sequences * shape.num_kv_heads;
  const int64_t block_index = num_blocks() - 1 - unit / num_pairs;
  Block block;
  block.sequence = unit % num_pairs / shape.num_kv_heads;
  block.kv_head = unit % shape.num_kv_heads;
  block.num_heads = shape.num_heads / shape.num_kv_heads;
  block.head = block.kv_head * block.num_heads;
  block.first = block_index * block_queries;
  block.count = std::min(block_queries, shape.q_len - block.first);
  block.first_tile = first_key(block, block.first) / kTile * kTile;
  const ForwardState<U> state = start(block, workspace);
  const int64_t end_key = num_visible(block.first + block.count - 1);
  const bool in_place = block.count == 1 && block.num_heads <= kHeadsInPlace;
  for (int64_t key = block.first_tile; key < end_key; key += kTile) {
    in_place ? attend_in_place(block, key, state) : attend(block, key, state);
  }
  finish(block, state);
}

}  // namespace
}  // namespace trireme::TRIREME_ISA
