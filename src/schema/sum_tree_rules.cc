#include "schema/sum_tree_rules.h"

#include <fmt/format.h>

#include <bit>
#include <functional>

#include "schema/batch.h"
#include "schema/degree_rules.h"

namespace trireme {
namespace {

bool is_power(int64_t n) { return std::has_single_bit(uint64_t(n)); }

// True if data-parallel ranks sum every micro-batch before a rank sums its own (ZeRO 2 and 3).
bool sums_ranks_first(const ParallelConfig& parallel) { return zero_level(parallel) >= 2; }

bool has_two_directions(const ParallelConfig& parallel) {
  return parallel.schedule == ScheduleKind::Dualpipe;
}

std::string mode_of(const RunConfig& config) {
  return fmt::format("run.reproducible = \"{}\"", name_of(config.run.reproducible));
}

// Returns text such as "try 1 or 2, " with the allowed numbers up to `most`; "" if there are none.
std::string named(int64_t most, const std::function<bool(int64_t)>& is_allowed) {
  bool is_any = false;
  for (int64_t number = 1; number <= most && !is_any; ++number) is_any = is_allowed(number);
  return is_any ? try_those(most, is_allowed) + ", " : "";
}

ConfigProblem dp_problem(const RunConfig& config, int64_t num_microbatches) {
  const ParallelConfig& parallel = config.parallel;
  const auto is_allowed = [&](int64_t dp) {
    if (!is_power(dp) || parallel.dp % dp != 0) return false;
    return !has_two_directions(parallel) || is_power(num_microbatches * (parallel.dp / dp));
  };
  const bool fits_level_1 = is_power(num_microbatches);
  return {"parallel.dp", std::to_string(parallel.dp),
          fmt::format("must be a power of two where {} with parallel.zero = {} sums along a "
                      "binary tree over the micro-batches",
                      mode_of(config), parallel.zero),
          named(parallel.dp, is_allowed) + (fits_level_1 ? "parallel.zero = 1, " : "") +
              "or run.reproducible = \"fixed\""};
}

ConfigProblem shard_problem(const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  const std::string others = named(parallel.hsdp_shard, [&](int64_t shard) {
    return is_power(shard) && parallel.dp % shard == 0;
  });
  return {"parallel.hsdp_shard", std::to_string(parallel.hsdp_shard),
          fmt::format("must be a power of two, or all of parallel.dp = {}, where {} sums along a "
                      "binary tree over the ranks",
                      parallel.dp, mode_of(config)),
          others + "0 for all, or run.reproducible = \"fixed\""};
}

ConfigProblem batch_problem(const RunConfig& config, int64_t num_microbatches) {
  const int64_t of_rank = num_microbatches * config.batch.micro_sequences;
  const int64_t least = has_two_directions(config.parallel) ? 2 * config.parallel.pp : 1;
  const std::string others = named(of_rank / least, [&](int64_t micro) {
    return of_rank % micro == 0 && is_power(of_rank / micro);
  });
  return {"batch.micro_sequences", std::to_string(config.batch.micro_sequences),
          fmt::format("gives a rank {} micro-batches of a step; {} sums along a binary tree, so "
                      "that they must be a power of two",
                      num_microbatches, mode_of(config)),
          others + "another batch.global_sequences, or run.reproducible = \"fixed\""};
}

// Batch norms over a step: the leaves of a rank must be a node of the tree of all leaves. A mean
// over the ranks has the bits of one rank alone only if it is divided by a power of two.
std::vector<ConfigProblem> leaf_problems(const RunConfig& config) {
  const int64_t leaves = leaves_of_microbatch(config);
  const int dp = config.parallel.dp;
  const auto is_allowed = [&](int64_t other) { return is_power(other) && dp % other == 0; };
  if (!is_power(dp)) {
    return {{"parallel.dp", std::to_string(dp),
             fmt::format("must be a power of two where {} joins ranks in the batch norms of a step",
                         mode_of(config)),
             named(dp, is_allowed) + "or run.reproducible = \"fixed\""}};
  }
  if (!is_power(leaves)) return {batch_problem(config, leaves)};
  return {};
}

}  // namespace

std::vector<ConfigProblem> sum_tree_problems(const RunConfig& config, int64_t num_microbatches) {
  const ParallelConfig& parallel = config.parallel;
  if (config.run.reproducible != Reproducible::Layout &&
      config.run.reproducible != Reproducible::Mesh)
    return {};
  if (parallel.dp == 1 && !has_two_directions(parallel)) return {};
  if (config.model.batch_norm == NormBatch::Step) return leaf_problems(config);
  const bool ranks_first = sums_ranks_first(parallel);
  if (ranks_first && !is_power(parallel.dp)) return {dp_problem(config, num_microbatches)};
  std::vector<ConfigProblem> problems;
  const bool has_copies = parallel.zero > 0 && parallel.hsdp_shard > 0;
  if (has_copies && parallel.hsdp_shard != parallel.dp && !is_power(parallel.hsdp_shard)) {
    problems.push_back(shard_problem(config));
  }
  if ((!ranks_first || has_two_directions(parallel)) && !is_power(num_microbatches)) {
    problems.push_back(batch_problem(config, num_microbatches));
  }
  return problems;
}

void sum_tree_rules(ConfigRules& rules, const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  if (parallel.staleness > 0 || parallel.pp < 1 || parallel.hsdp_shard < 0) return;
  const int64_t num_microbatches = microbatches_of_step(config);
  if (num_microbatches < 1) return;  // reported by batch_rules
  const auto problems = sum_tree_problems(config, num_microbatches);
  for (const ConfigProblem& problem : problems) {
    rules.require(false, problem.key, problem.rule, problem.remedy);
  }
}

}  // namespace trireme
