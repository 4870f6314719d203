#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "graph/model_shard.h"

namespace trireme {

// `count` products of an [m, k] and a [k, n] matrix, made by one call.
struct Product {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t count = 1;
  int64_t result_bytes = 0;  // of a number of the result; 0: as many as of the operands
  bool is_again = false;     // was made before, and is no part of the model's FLOPs

  double flops() const { return 2.0 * double(m) * double(n) * double(k) * double(count); }
  // Elements of both operands and of the result.
  double elements() const {
    return (double(m) * double(k) + double(k) * double(n) + double(m) * double(n)) * double(count);
  }
};

// Operations of our kernels on one number, counted in their vector code: loads, conversions and
// stores included, a division as eight.
struct VectorOperations {
  static constexpr double kNormForward = 13.0, kNormInputGrad = 22.0, kNormWeightGrad = 7.0;
  static constexpr double kActivationForward = 31.0, kActivationGrad = 41.0;  // with exponentials
  static constexpr double kReluForward = 3.0, kReluGrad = 5.0;
  static constexpr double kRope = 10.0;
  static constexpr double kDropout = 40.0;
  static constexpr double kLoss = 40.0;  // maximum, two exponentials, sum and gradient
  // The forward pass of attention makes so many for each score: mask, maximum, exponential, sum,
  // and the operands of the second product.
  static constexpr double kAttentionScore = 16.0;
  static constexpr double kIndexScore = 4.0;  // of one head: ReLU, its weight, the sum
};

// What the forward pass, the input gradient or the weight gradient of an op computes.
struct HalfWork {
  std::vector<Product> products;
  double bytes = 0.0;       // read and written by everything that is not a product
  double operations = 0.0;  // of the same kernels on single numbers
  int calls = 0;            // kernels that do this
  // No cache holds the bytes: the threads of a processor wait for them, and then compute.
  bool is_streamed = false;
};

// Causal attention of one micro-batch. Every query meets half of the keys on average, or those of
// its window or its document.
struct AttentionWork {
  int64_t sequences = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t queries = 0;  // of one sequence
  int64_t keys = 0;
  int64_t head_dim = 0;
  int64_t value_dim = 0;       // 0: head_dim
  int64_t window = 0;          // 0: all keys before the query
  double document_keys = 0.0;  // StageShape::document_keys
  // Number of ranks in the ring of context parallelism. Each sequence needs one attention call for
  // the keys of each rank.
  int64_t ring_size = 1;

  int64_t out_dim() const { return value_dim > 0 ? value_dim : head_dim; }

  // Scores of all queries and keys, those behind a query included.
  double scores() const {
    return double(sequences) * double(heads) * double(queries) * double(keys);
  }
  // Numbers in the queries, keys and values.
  double elements() const {
    return double(sequences) * double(queries) *
           double((heads + kv_heads) * head_dim + kv_heads * out_dim());
  }
  double outputs() const {
    return double(sequences) * double(queries) * double(heads) * double(out_dim());
  }
  // Numbers that a copy of the keys and values for every head of the queries reads or writes, on
  // average of both; 0 if they have as many heads.
  double copied_keys() const {
    if (kv_heads == heads) return 0.0;
    return 0.5 * double(sequences) * double(queries) * double(heads + kv_heads) *
           double(head_dim + out_dim());
  }
  // Returns twice the mean number of positions, of `count`, that a position meets if it meets those
  // up to its own, but at most `most`.
  static double twice_the_mean(double count, double most) {
    return most >= count ? count + 1.0 : most * (2.0 * count - most + 1.0) / count;
  }
  // Keys that a query sees on average: those of its document, or of its window if they are fewer.
  double seen_keys() const {
    const double seen = 0.5 * twice_the_mean(double(keys), double(window > 0 ? window : keys));
    return document_keys > 0.0 ? std::min(seen, document_keys) : seen;
  }
  // FLOPs of the forward pass. They count only the pairs of a query and a key that it sees. The
  // backward pass takes 2.5 times as many.
  double forward_flops() const {
    return 2.0 * double(sequences) * double(heads) * double(queries) * seen_keys() *
           double(head_dim + out_dim());
  }
};

// The work of one op on one rank for one micro-batch.
struct OpWork {
  OpKind kind = OpKind::Norm;
  HalfWork forward;
  HalfWork input_grad;   // in B
  HalfWork weight_grad;  // in W
  std::optional<AttentionWork> attention = {};
};

// Lists the work of every op of a placed graph, or of a fused one, where a product also adds the
// residual stream. Transfers between ranks are not counted (moves.h). Experts are visited evenly.
std::vector<OpWork> op_works(const Graph& unit, const ModelShard& shard, const StageShape& shape);

}  // namespace trireme
