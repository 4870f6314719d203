#include "compile/kernel_price.h"

#include <algorithm>

#include "base/align.h"

namespace trireme {
namespace {

// A multiply-add is one operation and two FLOPs. Without a vector_share operations take no time.
double price_operations(double operations, const Hardware& hardware) {
  if (hardware.vector_share <= 0.0) return 0.0;
  return operations / (hardware.fp32_flops * hardware.vector_share / 2.0);
}

// Scores of a ring, in whole tiles of keys. Queries see the rank's own keys under the causal mask.
// Of the keys of another rank, either all queries see one half, or one half of the queries sees all
// (nn/ring_pairs.h).
double ring_scores_in_tiles(const AttentionWork& work, int64_t tile) {
  const auto whole = [&](int64_t count) { return double(round_up(count, tile)); };
  const int64_t local = work.queries, half = work.queries / 2;
  const double tiles = whole(local) / double(tile);
  const double own =
      double(local) * 0.5 * AttentionWork::twice_the_mean(tiles, tiles) * double(tile);
  const double others = 0.5 * (double(local) * whole(half) + double(half) * whole(local));
  return double(work.sequences) * double(work.heads) * (own + double(work.ring_size - 1) * others);
}

// Scores of the forward pass, for every query in whole tiles of keys. Tiles that the causal mask
// cuts are computed whole.
double scores_in_tiles(const AttentionWork& work, int64_t tile) {
  if (work.ring_size > 1 && work.window == 0 && work.document_keys == 0.0) {
    return ring_scores_in_tiles(work, tile);
  }
  const auto whole = [&](int64_t count) { return double(round_up(count, tile)); };
  // A window begins and ends inside tiles, so it may touch one more tile than it fills.
  const double tiles = whole(work.keys) / double(tile);
  const double most = work.window > 0 ? whole(work.window) / double(tile) + 1.0 : tiles;
  double seen_tiles = 0.5 * AttentionWork::twice_the_mean(tiles, most);
  // A document begins inside a tile, and its queries end inside tiles.
  if (work.document_keys > 0.0) {
    seen_tiles = std::min(seen_tiles, 1.0 + (work.document_keys - 1.0) / double(tile));
  }
  return double(work.sequences) * double(work.heads) * double(work.queries) * seen_tiles *
         double(tile);
}

// Times of a fused kernel on a GPU grow less than its FLOPs do: every tile pays for its beginning,
// its end, and the part of it that the mask cuts off, as if a query had met so many more keys. On
// an H100 the speeds of FlashAttention-2 and cuDNN over 1,024 to 16,384 tokens follow this within
// 5 % (Shah et al. 2024, arXiv:2407.08608, figures 5 and 6, heads of 128).
constexpr double kMoreKeysForward = 125.0;
constexpr double kMoreKeysBackward = 220.0;

// FLOPs that take as long at the share of long sequences / those that are made.
double short_sequence_factor(const AttentionWork& work, bool is_backward,
                             const Hardware& hardware) {
  if (hardware.multiprocessors == 0) return 1.0;
  return 1.0 + (is_backward ? kMoreKeysBackward : kMoreKeysForward) / work.seen_keys();
}

// Share of the peak that fused attention reaches over long sequences.
double attention_share_of(const Hardware& hardware, bool is_backward) {
  const TrainerPractice& practice = hardware.practice;
  const bool is_of_practice = practice.attention_share > 0.0;
  const double forward = is_of_practice ? practice.attention_share : hardware.attention_share;
  const double backward =
      is_of_practice ? practice.attention_backward_share : hardware.attention_backward_share;
  return is_backward && backward > 0.0 ? backward : forward;
}

// Our own kernel makes the products with the registers' multiplication of the compute dtype, and
// between them the probabilities in fp32.
double price_attention_in_tiles(const AttentionWork& work, DType compute,
                                const Hardware& hardware) {
  const double scores = scores_in_tiles(work, hardware.attention_tile);
  const double flops = 2.0 * scores * double(work.head_dim + work.out_dim());
  return flops / (hardware.peak_flops(compute) * hardware.attention_share) +
         price_operations(scores * VectorOperations::kAttentionScore, hardware);
}

// Returns the number of kernels that one pass calls. For each call on the keys of another rank, F
// also merges the outputs; B also copies statistics and adds to both gradients.
double ring_calls(const AttentionWork& work, bool is_backward) {
  return 1.0 + double((work.ring_size - 1) * work.sequences) * (is_backward ? 4.0 : 2.0);
}

// Numbers of the results of one product call, those included whose multiprocessors idle: every
// multiprocessor makes one tile after the other, and all wait for the last wave of tiles. The
// library takes the tile that leaves the fewest idle, and cuts the sums of a product of less than
// one wave into parts.
double tiled_results(const Product& product, int multiprocessors) {
  const double results = double(product.m) * double(product.n) * double(product.count);
  if (multiprocessors == 0) return results;
  const auto covered_by = [&](int64_t rows, int64_t cols) {
    const int64_t tiles =
        ((product.m + rows - 1) / rows) * ((product.n + cols - 1) / cols) * product.count;
    const int64_t waves = (tiles + multiprocessors - 1) / multiprocessors;
    const int64_t turns = waves == 1 ? tiles : waves * multiprocessors;
    return double(turns) * double(rows * cols);
  };
  return std::min({covered_by(256, 128), covered_by(128, 256), covered_by(128, 128)});
}

// Seconds of a product under the power limit, or 0 if it does not bind. The energy of its FLOPs is
// spent however they are cut into tiles, and multiprocessors that wait spend little.
double power_limited_s(const Product& product, DType compute, const Hardware& hardware) {
  if (hardware.sustained_flops <= 0.0 || size_of(compute) != 2) return 0.0;
  return product.flops() / hardware.sustained_flops;
}

// Bytes of a number of the result / of an operand.
double result_share(const Product& product, DType compute) {
  return product.result_bytes > 0 ? double(product.result_bytes) / double(size_of(compute)) : 1.0;
}

// A matrix of more bytes lies in memory; the caches cannot keep it from one kernel to the next.
constexpr double kMostCachedBytes = 32.0 * 1024 * 1024;

// Seconds in which a processor moves both operands and the result of a product. Matrices that lie
// in memory come from there.
double product_moving_s(const Product& product, DType compute, const Hardware& hardware) {
  const double m = double(product.m), n = double(product.n), k = double(product.k);
  const double memory_bytes_per_s =
      std::min(hardware.matmul_bytes_per_s, hardware.memory_bytes_per_s * hardware.memory_share);
  double seconds = 0.0;
  for (const double numbers : {m * k, k * n, m * n * result_share(product, compute)}) {
    const double bytes = numbers * double(size_of(compute));
    const bool is_cached = bytes <= kMostCachedBytes;
    seconds += bytes / (is_cached ? hardware.matmul_bytes_per_s : memory_bytes_per_s);
  }
  return double(product.count) * seconds;
}

}  // namespace

double product_bytes(const Product& product, DType compute) {
  const double results = double(product.m) * double(product.n) * double(product.count);
  return (product.elements() + (result_share(product, compute) - 1.0) * results) *
         double(size_of(compute));
}

HalfWork weight_grad_on(HalfWork half, const Hardware& hardware) {
  if (hardware.is_processor()) return half;
  const bool is_copied = hardware.practice.grad_copy_bytes > 0.0;
  for (Product& product : half.products) {
    if (!product.is_again) product.result_bytes *= is_copied ? 0 : 2;
  }
  return half;
}

double price_product(const Product& product, DType compute, const Hardware& hardware) {
  const double depth =
      hardware.matmul_depth * (hardware.is_processor() ? 1.0 : result_share(product, compute));
  const double deep_flops =
      2.0 * tiled_results(product, hardware.multiprocessors) * (double(product.k) + depth);
  const double flops_s = deep_flops / (hardware.peak_flops(compute) * hardware.matmul_share);
  if (hardware.is_processor()) {
    return hardware.launch_s + flops_s + product_moving_s(product, compute, hardware);
  }
  return std::max({flops_s, power_limited_s(product, compute, hardware),
                   price_memory(product_bytes(product, compute), 1, hardware)});
}

double price_memory(double bytes, int calls, const Hardware& hardware) {
  const double bytes_s = bytes / (hardware.memory_bytes_per_s * hardware.memory_share);
  const double launches_s = calls * hardware.launch_s;
  return hardware.is_processor() ? bytes_s + launches_s : std::max(bytes_s, launches_s);
}

double price_vectors(const HalfWork& half, const Hardware& hardware) {
  const double bytes_s = price_memory(half.bytes, half.calls, hardware);
  if (hardware.vector_share <= 0.0) return bytes_s;
  const double operations_s = price_operations(half.operations, hardware);
  const double launches_s = hardware.is_processor() ? half.calls * hardware.launch_s : 0.0;
  if (hardware.is_processor() && half.is_streamed) return bytes_s + operations_s;
  return std::max(bytes_s, launches_s + operations_s);
}

double fused_attention_bytes(const AttentionWork& work, DType compute) {
  return (work.elements() + work.outputs()) * double(size_of(compute));
}

double price_fused_attention(const AttentionWork& work, double factor, DType compute,
                             const Hardware& hardware) {
  if (hardware.attention_tile > 0) {
    const double tiles_s = price_attention_in_tiles(work, compute, hardware);
    // The threads of a processor load and compute in turn.
    const double moving_s = hardware.is_processor()
                                ? fused_attention_bytes(work, compute) / hardware.matmul_bytes_per_s
                                : 0.0;
    return factor * (tiles_s + double(work.ring_size) * moving_s) +
           ring_calls(work, factor > 1.0) * hardware.launch_s;
  }
  const bool is_backward = factor > 1.0;
  const double flops =
      factor * work.forward_flops() * short_sequence_factor(work, is_backward, hardware);
  const double share = attention_share_of(hardware, is_backward);
  return std::max(flops / (hardware.peak_flops(compute) * share), hardware.launch_s);
}

double price_forward(const OpWork& work, DType compute, const Hardware& hardware) {
  double seconds = price_vectors(work.forward, hardware);
  for (const Product& product : work.forward.products) {
    seconds += price_product(product, compute, hardware);
  }
  if (work.attention) seconds += price_fused_attention(*work.attention, 1.0, compute, hardware);
  return seconds;
}

}  // namespace trireme
