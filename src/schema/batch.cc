#include "schema/batch.h"

#include <algorithm>

namespace trireme {
namespace {

// Products of two such sizes do not overflow.
constexpr int64_t kMostOfAProduct = int64_t{1} << 31;

bool is_size(int64_t value) { return value >= 1 && value <= kMostOfAProduct; }

bool takes_step_at_once(const RunConfig& config) {
  return config.model.batch_norm == NormBatch::Step;
}

// Parts of batch.micro_sequences sequences that a rank has in a step. 0: they do not come out even.
int64_t leaves_of_rank(const RunConfig& config) {
  const int64_t micro = config.batch.micro_sequences, dp = config.parallel.dp;
  if (!is_size(micro) || !is_size(dp)) return 0;
  const int64_t sequences = sequences_of_step(config);
  return sequences % (micro * dp) == 0 ? sequences / (micro * dp) : 0;
}

}  // namespace

int64_t sequences_of_step(const RunConfig& config) {
  const BatchConfig& batch = config.batch;
  const int64_t seq_len = config.model.seq_len;
  if (batch.global_sequences < 0 || batch.global_tokens < 0) return 0;
  if (batch.global_tokens > 0) {
    if (seq_len < 1 || batch.global_tokens % seq_len != 0) return 0;
    const int64_t sequences = batch.global_tokens / seq_len;
    const bool is_said_twice = batch.global_sequences > 0;
    return is_said_twice && batch.global_sequences != sequences ? 0 : sequences;
  }
  if (batch.global_sequences > 0) return batch.global_sequences;
  const bool are_sizes = is_size(batch.micro_sequences) && is_size(config.parallel.dp);
  return are_sizes ? batch.micro_sequences * config.parallel.dp : 0;
}

int64_t microbatches_of_step(const RunConfig& config) {
  const int64_t of_rank = leaves_of_rank(config);
  return of_rank > 0 && takes_step_at_once(config) ? 1 : of_rank;
}

int64_t sequences_of_microbatch(const RunConfig& config) {
  const int64_t leaves = takes_step_at_once(config) ? leaves_of_rank(config) : 1;
  return std::max<int64_t>(1, leaves) * config.batch.micro_sequences;
}

int64_t leaves_of_microbatch(const RunConfig& config) {
  const bool has_tree = config.run.reproducible != Reproducible::Fixed;
  return has_tree && takes_step_at_once(config) ? std::max<int64_t>(1, leaves_of_rank(config)) : 1;
}

}  // namespace trireme
