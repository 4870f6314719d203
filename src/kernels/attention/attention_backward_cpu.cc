#include "kernels/attention/backward_unit.h"

namespace trireme::TRIREME_ISA {
namespace {

constexpr double kSerialFlops = 2e5;
constexpr int64_t kMaxQueryGradientBytes = int64_t{2} << 20;

// How a call is split into units. It does not change any bit of the result.
struct Split {
  int64_t num_pairs;  // pairs of sequence and kv head
  bool whole;         // a unit has all keys and queries of a pair
  int64_t unit_keys;  // keys of a unit for key gradients, queries of a unit for query gradients
  int64_t unit_queries;
};

template <typename T>
Split choose_split(const Backward<T>& backward, int num_threads) {
  const AttentionShape& shape = backward.shape;
  Split split;
  split.num_pairs = shape.num_sequences * shape.num_kv_heads;
  const int64_t width = padded_dim(shape.head_dim);
  const int64_t query_bytes = backward.heads_per_kv() * width * int64_t(sizeof(float));
  const bool fits = query_bytes * shape.q_len <= kMaxQueryGradientBytes;
  // An extra unit on one thread is cheaper than two more of the seven products.
  const bool balances = split.num_pairs % num_threads == 0 || split.num_pairs >= 3 * num_threads;
  split.whole = fits && balances;
  split.unit_keys = backward.block_keys();
  const int64_t most = kMaxQueryGradientBytes / query_bytes / kTile * kTile;
  split.unit_queries = std::clamp<int64_t>(most, kTile, 256);
  return split;
}

template <typename T>
void run(Stream& stream, const AttentionBackwardArgs& args) {
  const AttentionShape& shape = args.shape;
  const Backward<T> backward{args, shape};
  const bool serial = double(attention_forward_flops(shape)) < kSerialFlops;
  const Split split = choose_split(backward, serial ? 1 : stream.team().size());
  const auto for_each = [&](int64_t count, const auto& body) {
    if (!serial) return stream.team().parallel_for(count, body);
    for (int64_t i = 0; i < count; ++i) body(i, 0);
  };

  const int64_t num_tokens = shape.num_sequences * shape.q_len;
  constexpr int64_t kDeltaTokens = 256;
  const int64_t chunks = num_steps_of(num_tokens, kDeltaTokens);
  for_each(chunks * shape.num_heads, [&](int64_t i, int) {
    const int64_t first = i / shape.num_heads * kDeltaTokens;
    backward.compute_delta(i % shape.num_heads, first, std::min(first + kDeltaTokens, num_tokens));
  });

  const auto unit_of = [&](int64_t pair) {
    return Unit{pair / shape.num_kv_heads,
                pair % shape.num_kv_heads,
                0,
                shape.kv_len,
                0,
                shape.q_len,
                true,
                true};
  };
  if (split.whole) {
    return for_each(split.num_pairs, [&](int64_t pair, int thread) {
      backward.run_unit(unit_of(pair), stream.workspace(thread));
    });
  }
  const int64_t key_parts = num_steps_of(shape.kv_len, split.unit_keys);
  const int64_t query_parts = num_steps_of(shape.q_len, split.unit_queries);
  for_each((key_parts + query_parts) * split.num_pairs, [&](int64_t i, int thread) {
    Unit unit = unit_of(i % split.num_pairs);
    const int64_t part = i / split.num_pairs;
    unit.wants_keys = part < key_parts;
    unit.wants_queries = !unit.wants_keys;
    if (unit.wants_keys) {  // most queries see the first keys
      unit.first_key = part * split.unit_keys;
      unit.end_key = std::min(unit.first_key + split.unit_keys, shape.kv_len);
    } else {
      unit.first_query = (key_parts + query_parts - 1 - part) * split.unit_queries;
      unit.end_query = std::min(unit.first_query + split.unit_queries, shape.q_len);
      unit.end_key = shape.num_visible(unit.end_query - 1);
    }
    backward.run_unit(unit, stream.workspace(thread));
  });
}

}  // namespace

void attention_backward(Stream& stream, const AttentionBackwardArgs& args) {
  check_attention(args);
  with_element(args.q_T_HD.dtype, [&]<typename T>(T) { run<T>(stream, args); });
}

}  // namespace trireme::TRIREME_ISA
