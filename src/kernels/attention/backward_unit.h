#pragma once

// The backward pass of attention for one unit of work, for *_cpu.cc files only.

#include "kernels/attention/attention_tile.h"

namespace trireme::TRIREME_ISA {
namespace {

// A unit of work: a range of keys and a range of queries of one kv head of one sequence, and which
// of their gradients are computed. A unit with whole ranges and both gradients takes five products
// of the size of the scores. Separate units for keys and queries take seven, but there are many of
// them and each needs bounded memory. Sums run over the same tiles in the same order, so both have
// the same bits.
struct Unit {
  int64_t sequence, kv_head;
  int64_t first_key, end_key;
  int64_t first_query, end_query;
  bool wants_keys, wants_queries;
};

// The memory of one thread for a unit.
template <typename U>
struct BackwardState {
  uint32_t* k_steps;    // the block of keys as steps
  U* k_copy;            // [key][P], if rows cannot be read in place
  U* v_copy;            // [key][O]
  float* dk;            // [key][P]
  float* dv;            // [key][O]
  uint32_t* q_columns;  // a tile of queries, then its dout
  uint32_t* dout_columns;
  uint32_t* q_steps;
  uint32_t* dout_steps;
  float* lse;              // [kTile], in powers of two; +inf: the query does not exist
  float* delta;            // [kTile]
  uint32_t* first_keys;    // [kTile], if there is a window
  float* scores;           // [kGroupRows][kTile], transposed: a row is a key
  float* dprobabilities;   // [kGroupRows][kTile]
  U* probabilities;        // [kGroupRows][kTile]
  U* dscores;              // [key][kTile]
  uint32_t* dscore_steps;  // [step of keys][kTile]
  float* dq;               // [head][query][P]
};

template <typename T>
struct Backward {
  using U = ComputeType<T>;
  static constexpr int64_t kElements = kStepElements<U>;
  static constexpr int64_t kTileSteps = kTile / kElements;

  const AttentionBackwardArgs& args;
  const AttentionShape shape;

  int64_t heads_per_kv() const { return shape.num_heads / shape.num_kv_heads; }
  int64_t block_keys() const { return std::max(shape.head_dim, shape.out_dim()) <= 256 ? 192 : 48; }
  void compute_delta(int64_t head, int64_t first_token, int64_t end_token) const;
  void run_unit(const Unit& unit, std::byte* workspace) const;

 private:
  struct KeyBlock {
    int64_t first, count;
    LeftRows k, v;
  };
  struct QueryTile {
    int64_t head, first, count;
  };

  int64_t width() const { return padded_dim(shape.head_dim); }
  int64_t out_width() const { return padded_dim(shape.out_dim()); }
  int64_t head_steps() const { return num_steps_of(shape.head_dim, kElements); }
  int64_t out_steps() const { return num_steps_of(shape.out_dim(), kElements); }
  int64_t block_steps() const { return num_steps_of(block_keys(), kElements); }
  int64_t last_visible(int64_t query) const { return shape.num_visible(query) - 1; }
  int64_t first_key(const Unit& unit, int64_t query) const {
    return args.window ? args.window.first_key(unit.sequence * shape.q_len + query) : 0;
  }
  // `dim`: columns of a head.
  const T* query_row(const MatrixRef& x, const Unit& unit, int64_t head, int64_t query,
                     int64_t dim) const {
    return x.row<const T>(unit.sequence * shape.q_len + query) + head * dim;
  }
  const T* key_row(const MatrixRef& x, const Unit& unit, int64_t key, int64_t dim) const {
    return x.row<const T>(unit.sequence * shape.kv_len + key) + unit.kv_head * dim;
  }
  BackwardState<U> start(const Unit& unit, std::byte* workspace) const;
  KeyBlock load_keys(const Unit& unit, int64_t first, const BackwardState<U>& s) const;
  void load_queries(const Unit& unit, const QueryTile& tile, const BackwardState<U>& s) const;
  void run_tile(const Unit& unit, const KeyBlock& keys, const QueryTile& tile,
                const BackwardState<U>& s) const;
  void run_group(const Unit& unit, const KeyBlock& keys, const QueryTile& tile, int64_t i,
                 int64_t first_col, const BackwardState<U>& s) const;
  void differentiate_row(const Unit& unit, const QueryTile& tile, int64_t key, int64_t first_col,
                         int64_t r, U* dscores, const BackwardState<U>& s) const;
  void add_query_gradients(const Unit& unit, const KeyBlock& keys, const QueryTile& tile,
                           int64_t num_keys, const BackwardState<U>& s) const;
  // `dim`: columns of the rows.
  void store_rows(const float* rows, int64_t num_rows, int64_t dim, float factor, T* out,
                  int64_t stride) const;
};

template <typename T>
void Backward<T>::compute_delta(int64_t head, int64_t first_token, int64_t end_token) const {
  float* delta_HT = static_cast<float*>(args.delta_HT.data);
  for (int64_t token = first_token; token < end_token; ++token) {
    const int64_t dim = shape.out_dim();
    const T* out = args.out_T_HD.row<const T>(token) + head * dim;
    const T* dout = args.dout_T_HD.row<const T>(token) + head * dim;
    F32x16 sum = zeros();
    for (int64_t d = 0; d < dim; d += kLanes) {
      sum = fma(load_row(out + d, dim - d), load_row(dout + d, dim - d), sum);
    }
    delta_HT[head * shape.num_sequences * shape.q_len + token] = reduce_sum(sum);
  }
}

template <typename T>
BackwardState<ComputeType<T>> Backward<T>::start(const Unit& unit, std::byte* workspace) const {
  const int64_t keys = block_keys();
  const int64_t panels = num_dim_panels(shape.head_dim) * kPanelCols;
  const int64_t out_panels = num_dim_panels(shape.out_dim()) * kPanelCols;
  const int64_t copied = reads_in_place<T>(shape.head_dim) ? 0 : keys * width();
  const int64_t copied_values = reads_in_place<T>(shape.out_dim()) ? 0 : keys * out_width();
  const int64_t dq_elements =
      unit.wants_queries ? heads_per_kv() * (unit.end_query - unit.first_query) * width() : 0;
  WorkspaceCursor cursor(workspace);
  BackwardState<U> s;
  s.k_steps = cursor.take<uint32_t>(panels * block_steps());
  s.k_copy = cursor.take<U>(copied);
  s.v_copy = cursor.take<U>(copied_values);
  s.dk = cursor.take<float>(keys * width());
  s.dv = cursor.take<float>(keys * out_width());
  s.q_columns = cursor.take<uint32_t>(head_steps() * kTile);
  s.dout_columns = cursor.take<uint32_t>(out_steps() * kTile);
  s.q_steps = cursor.take<uint32_t>(panels * kTileSteps);
  s.dout_steps = cursor.take<uint32_t>(out_panels * kTileSteps);
  s.lse = cursor.take<float>(kTile);
  s.delta = cursor.take<float>(kTile);
  s.first_keys = cursor.take<uint32_t>(args.window ? kTile : 0);
  s.scores = cursor.take<float>(kGroupRows * kTile);
  s.dprobabilities = cursor.take<float>(kGroupRows * kTile);
  s.probabilities = cursor.take<U>(kGroupRows * kTile);
  s.dscores = cursor.take<U>(keys * kTile);
  s.dscore_steps = cursor.take<uint32_t>(kElements == 1 ? 0 : block_steps() * kTile);
  s.dq = cursor.take<float>(dq_elements);
  std::fill_n(s.dq, dq_elements, 0.0f);
  return s;
}

template <typename T>
typename Backward<T>::KeyBlock Backward<T>::load_keys(const Unit& unit, int64_t first,
                                                      const BackwardState<U>& s) const {
  KeyBlock keys;
  keys.first = first;
  keys.count = std::min(block_keys(), unit.end_key - first);
  const T* k = key_row(args.k_T_KD, unit, first, shape.head_dim);
  const T* v = key_row(args.v_T_KD, unit, first, shape.out_dim());
  keys.k = left_rows(k, args.k_T_KD.stride, keys.count, shape.head_dim, s.k_copy);
  keys.v = left_rows(v, args.v_T_KD.stride, keys.count, shape.out_dim(), s.v_copy);
  if (unit.wants_queries) {
    pack_steps(k, args.k_T_KD.stride, keys.count, shape.head_dim, block_steps(), s.k_steps);
  }
  if (unit.wants_keys) {
    std::fill_n(s.dk, keys.count * width(), 0.0f);
    std::fill_n(s.dv, keys.count * out_width(), 0.0f);
  }
  return keys;
}

template <typename T>
void Backward<T>::load_queries(const Unit& unit, const QueryTile& tile,
                               const BackwardState<U>& s) const {
  const T* q = query_row(args.q_T_HD, unit, tile.head, tile.first, shape.head_dim);
  const T* dout = query_row(args.dout_T_HD, unit, tile.head, tile.first, shape.out_dim());
  pack_columns(q, args.q_T_HD.stride, tile.count, shape.head_dim, s.q_columns);
  pack_columns(dout, args.dout_T_HD.stride, tile.count, shape.out_dim(), s.dout_columns);
  if (unit.wants_keys) {
    pack_steps(q, args.q_T_HD.stride, tile.count, shape.head_dim, kTileSteps, s.q_steps);
    pack_steps(dout, args.dout_T_HD.stride, tile.count, shape.out_dim(), kTileSteps, s.dout_steps);
  }
  const int64_t statistic =
      tile.head * shape.num_sequences * shape.q_len + unit.sequence * shape.q_len + tile.first;
  const float* lse_HT = static_cast<const float*>(args.lse_HT.data) + statistic;
  const float* delta_HT = static_cast<const float*>(args.delta_HT.data) + statistic;
  for (int64_t i = 0; i < kTile; ++i) {  // a query that does not exist has no probabilities
    s.lse[i] = i < tile.count ? lse_HT[i] * kLog2E : __builtin_inff();
    s.delta[i] = i < tile.count ? delta_HT[i] : 0.0f;
  }
  if (!args.window) return;
  for (int64_t i = 0; i < kTile; ++i) {
    s.first_keys[i] = i < tile.count ? uint32_t(first_key(unit, tile.first + i)) : 0u;
  }
}

// Turns one key's row of scores into probabilities, and its row of dprobabilities into dscores. In
// the vectors before that of first_col no query sees the key.
template <typename T>
TRIREME_INLINE void Backward<T>::differentiate_row(const Unit& unit, const QueryTile& tile,
                                                   int64_t key, int64_t first_col, int64_t r,
                                                   U* dscores, const BackwardState<U>& s) const {
  const F32x16 to_powers_of_two = broadcast(shape.scale * kLog2E);
  // The first query of the tile that sees the key.
  const int64_t first_seeing = key - last_visible(tile.first);
  int64_t col = 0;
  for (; col < first_col; col += kLanes) store_operand(dscores + col, zeros());
  for (; col < kTile; col += kLanes) {
    const F32x16 score = load(s.scores + r * kTile + col);
    F32x16 p = exp2_of<T>(fma(score, to_powers_of_two, zeros() - load(s.lse + col)));
    if (col < first_seeing) {
      const uint32_t unseen = uint32_t(std::min(first_seeing - col, kLanes));
      p = select(lane_indices() < broadcast_u32(unseen), zeros(), p);
    }
    if (args.window) {
      p = select(broadcast_u32(uint32_t(key)) < load(s.first_keys + col), zeros(), p);
    }
    F32x16 kept = p;
    F32x16 dp = load(s.dprobabilities + r * kTile + col);
    if (args.dropout.probability > 0.0f) [[unlikely]] {
      const DropoutOfHead dropout = dropout_of(args.dropout, unit.sequence, tile.head);
      const int64_t query = shape.kv_len - shape.q_len + tile.first + col;
      const F32x16 keep = keep_factors(dropout, query, true, key);
      kept = kept * keep;
      dp = dp * keep;
    }
    store_operand(s.probabilities + r * kTile + col, kept);
    store_operand(dscores + col, p * (dp - load(s.delta + col)));
  }
}

// Computes keys i .. i + kGroupRows of the block against one tile of queries, from first_col on.
template <typename T>
void Backward<T>::run_group(const Unit& unit, const KeyBlock& keys, const QueryTile& tile,
                            int64_t i, int64_t first_col, const BackwardState<U>& s) const {
  const int64_t count = std::min(kGroupRows, keys.count - i);
  score_product<U>({keys.k.data + i * keys.k.row_bytes, keys.k.row_bytes}, count, s.q_columns,
                   head_steps(), first_col, kTile, s.scores);
  score_product<U>({keys.v.data + i * keys.v.row_bytes, keys.v.row_bytes}, count, s.dout_columns,
                   out_steps(), first_col, kTile, s.dprobabilities);
  U* dscores = s.dscores + i * kTile;
  for (int64_t r = 0; r < count; ++r) {
    differentiate_row(unit, tile, keys.first + i + r, first_col, r, dscores + r * kTile, s);
  }
  if (!unit.wants_keys) return;
  const int64_t first_step = first_col / kElements;
  const int64_t num_steps = num_steps_of(tile.count, kElements) - first_step;
  if (num_steps <= 0) return;
  const int64_t row_bytes = kTile * int64_t(sizeof(U));
  const LeftRows p{reinterpret_cast<const char*>(s.probabilities + first_col), row_bytes};
  const LeftRows ds{reinterpret_cast<const char*>(dscores + first_col), row_bytes};
  value_product<U>(p, sizeof(float), count, s.dout_steps + first_step * kPanelCols, kTileSteps,
                   num_steps, shape.out_dim(), s.dv + i * out_width());
  value_product<U>(ds, sizeof(float), count, s.q_steps + first_step * kPanelCols, kTileSteps,
                   num_steps, shape.head_dim, s.dk + i * width());
}

// dq of a tile += dscores^T k, with the dscores of the block's first num_keys keys.
template <typename T>
void Backward<T>::add_query_gradients(const Unit& unit, const KeyBlock& keys, const QueryTile& tile,
                                      int64_t num_keys, const BackwardState<U>& s) const {
  const char* steps = reinterpret_cast<const char*>(s.dscores);
  if constexpr (kElements != 1) {
    pack_interleaved(s.dscores, kTile, num_keys, kTile, kTile, s.dscore_steps);
    steps = reinterpret_cast<const char*>(s.dscore_steps);
  }
  const int64_t queries = unit.end_query - unit.first_query;
  const int64_t head = tile.head - unit.kv_head * heads_per_kv();
  float* dq = s.dq + (head * queries + tile.first - unit.first_query) * width();
  for (int64_t i = 0; i < tile.count; i += kGroupRows) {
    const int64_t count = std::min(kGroupRows, tile.count - i);
    const int64_t visible = last_visible(tile.first + i + count - 1) + 1 - keys.first;
    if (visible <= 0) continue;
    const LeftRows ds{steps + i * int64_t(sizeof(float)), sizeof(float)};
    value_product<U>(ds, kTile * sizeof(float), count, s.k_steps, block_steps(),
                     num_steps_of(std::min(visible, num_keys), kElements), shape.head_dim,
                     dq + i * width());
  }
}

template <typename T>
void Backward<T>::run_tile(const Unit& unit, const KeyBlock& keys, const QueryTile& tile,
                           const BackwardState<U>& s) const {
  load_queries(unit, tile, s);
  int64_t i = 0;
  for (; i < keys.count; i += kGroupRows) {
    const int64_t first_seeing = std::max<int64_t>(0, keys.first + i - last_visible(tile.first));
    if (first_seeing >= tile.count) break;
    if (first_key(unit, tile.first) >= keys.first + std::min(i + kGroupRows, keys.count)) {
      std::fill_n(s.dscores + i * kTile, kGroupRows * kTile, U{});
      continue;
    }
    run_group(unit, keys, tile, i, first_seeing / kLanes * kLanes, s);
  }
  if (unit.wants_queries) add_query_gradients(unit, keys, tile, std::min(i, keys.count), s);
}

template <typename T>
void Backward<T>::store_rows(const float* rows, int64_t num_rows, int64_t dim, float factor, T* out,
                             int64_t stride) const {
  for (int64_t r = 0; r < num_rows; ++r) {
    for (int64_t d = 0; d < dim; d += kLanes) {
      store_row(out + r * stride + d, load(rows + r * padded_dim(dim) + d) * broadcast(factor),
                dim - d);
    }
  }
}

template <typename T>
void Backward<T>::run_unit(const Unit& unit, std::byte* workspace) const {
  const BackwardState<U> s = start(unit, workspace);
  const int64_t first_head = unit.kv_head * heads_per_kv();
  const int64_t first_block = unit.wants_keys ? unit.first_key : first_key(unit, unit.first_query);
  for (int64_t first = first_block / block_keys() * block_keys(); first < unit.end_key;
       first += block_keys()) {
    const KeyBlock keys = load_keys(unit, first, s);
    const int64_t first_seeing = std::max(unit.first_query, first - last_visible(0));
    for (int64_t head = first_head; head < first_head + heads_per_kv(); ++head) {
      for (int64_t query = first_seeing / kTile * kTile; query < unit.end_query; query += kTile) {
        if (first_key(unit, query) >= first + keys.count) break;  // later queries see none either
        run_tile(unit, keys, {head, query, std::min(kTile, unit.end_query - query)}, s);
      }
    }
    if (!unit.wants_keys) continue;
    T* dk = const_cast<T*>(key_row(args.dk_T_KD, unit, first, shape.head_dim));
    T* dv = const_cast<T*>(key_row(args.dv_T_KD, unit, first, shape.out_dim()));
    store_rows(s.dk, keys.count, shape.head_dim, shape.scale, dk, args.dk_T_KD.stride);
    store_rows(s.dv, keys.count, shape.out_dim(), 1.0f, dv, args.dv_T_KD.stride);
  }
  if (!unit.wants_queries) return;
  const int64_t queries = unit.end_query - unit.first_query;
  for (int64_t h = 0; h < heads_per_kv(); ++h) {
    T* dq = const_cast<T*>(
        query_row(args.dq_T_HD, unit, first_head + h, unit.first_query, shape.head_dim));
    store_rows(s.dq + h * queries * width(), queries, shape.head_dim, shape.scale, dq,
               args.dq_T_HD.stride);
  }
}

}  // namespace
}  // namespace trireme::TRIREME_ISA
