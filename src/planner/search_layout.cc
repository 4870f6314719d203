#include "planner/search_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "compile/compile_plan.h"
#include "planner/candidate_queue.h"
#include "planner/kept_layouts.h"
#include "planner/layout_trial.h"
#include "planner/memory_refusal.h"
#include "schema/batch.h"

namespace trireme {
namespace {

// Says what the plan of the smallest layout needs. The bound alone would leave out everything that
// is not in the layers.
std::string leanest_text(const SearchTask& task, const LayoutRefusals& refusals) {
  RunPlan plan = task.plan_of(*refusals.leanest());
  plan.shape.again = kEverythingAgain;
  std::string bytes = "at least " + format_bytes(refusals.leanest_bytes());
  PlanParts parts;
  if (outline_pipeline(plan, parts).ok()) {
    compile_outlined(plan, parts);
    bytes = format_bytes(task.limit.limited(needed_bytes(plan)));
  }
  const std::string needs = fmt::format("one of the smallest layouts, {}, needs {}",
                                        describe(*refusals.leanest()), bytes);
  const bool is_of_machine = task.limit.is_of_machine();
  const std::string available = task.limit.text();
  const std::string of_all =
      is_of_machine ? fmt::format("{}: this machine has {} for all ranks", needs, available)
                    : fmt::format("{} of {}", needs, available);
  const std::string offload = offload_that_fits(plan.config, task.host);
  if (!offload.empty()) return fmt::format("{}; it fits with {}", of_all, offload);
  return (is_of_machine ? "" : "more ranks or more memory are needed: ") + of_all;
}

Error nothing_fits(const SearchTask& task, const CandidateQueue& queue) {
  const int num_ranks = task.num_ranks();
  std::string message =
      fmt::format("no layout of {} rank{} is feasible:", num_ranks, num_ranks == 1 ? "" : "s");
  for (const RefusedLayouts& refused : queue.refusals().by_rule()) {
    message +=
        fmt::format("\n  {} of {} are refused by {}, such as {}: {}", refused.count,
                    queue.num_layouts(), refused.rule, describe(refused.example), refused.message);
  }
  if (queue.refusals().leanest() && task.space.names_remedy)
    message += "\n" + leanest_text(task, queue.refusals());
  return {ErrorKind::Infeasible, message};
}

// Takes the candidates by their lower bounds, until no other can be among the layouts to keep.
Result<LayoutSearch> search(const SearchTask& task, KeptLayouts& kept) {
  LayoutBounds bounds(task.started, task.hardware);
  const std::vector<int64_t>& buckets = task.transfers.bucket_bytes;
  bounds.take_buckets_up_to(*std::max_element(buckets.begin(), buckets.end()));
  CandidateQueue queue(task, bounds);
  for (const Mesh& mesh : task.space.meshes) queue.add_layouts(mesh);
  LayoutTrial trial(task, bounds, queue, kept);
  while (const auto candidate = queue.pop()) {
    if (kept.is_done(candidate->least_s)) break;
    if (kept.is_beaten(candidate->least_s, candidate->least_bytes)) continue;
    if (!queue.split(*candidate)) trial.run(*candidate);
  }
  LayoutSearch result{.best = kept.layouts(),
                      .refused = queue.refusals().by_rule(),
                      .global_sequences = task.started.global_sequences,
                      .num_layouts = queue.num_layouts(),
                      .num_simulated = trial.num_simulated()};
  if (result.best.empty()) return nothing_fits(task, queue);
  return result;
}

// The search keeps the model and batch of the configuration and ignores its layout.
Result<LayoutSearch> search(const RunConfig& config, const HostFacts& host,
                            const Hardware& hardware, const LayoutSpace& space, KeptLayouts& kept) {
  if (config.parallel.sync != GradSync::AllReduce || config.parallel.staleness > 0) {
    return Error{
        ErrorKind::Usage,
        "the layout search needs parallel.sync = \"all_reduce\" and parallel.staleness = 0"};
  }
  if (config.model.batch_norm == NormBatch::Step) {
    return Error{ErrorKind::Usage,
                 "the layout search chooses micro-batches, and model.batch_norm = \"step\" makes "
                 "all images of a rank one; set model.batch_norm = \"micro_batch\""};
  }
  RunConfig alone = with_layout(config, {});
  if (const int64_t global = sequences_of_step(config); global > 0) {
    alone.batch.global_sequences = global;
    alone.batch.global_tokens = 0;
  }
  const int num_ranks = space.meshes.front().size();
  HostFacts facts = host;
  if (facts.ranks_on_host == 0) facts.ranks_on_host = num_ranks;
  TRIREME_TRY(started, start_plan(alone, facts));
  const Recompute recompute = config.memory.recompute;
  const SearchTask task{
      .config = alone,
      .recompute = recompute,
      .host = facts,
      .hardware = hardware,
      .space = space,
      .started = std::move(started),
      .limit = MemoryLimit(alone, facts, num_ranks),
      .transfers = transfer_choices(alone, facts, space),
      .tries_all_offloads = kept.wants_smaller_ways() || recompute == Recompute::Fit};
  return search(task, kept);
}

}  // namespace

Result<LayoutSearch> search_layout(const RunConfig& config, const HostFacts& host,
                                   const Hardware& hardware, const LayoutSpace& space,
                                   int num_best) {
  FastestLayouts fastest(size_t(std::max(num_best, 1)));
  return search(config, host, hardware, space, fastest);
}

Result<LayoutSearch> search_front(const RunConfig& config, const HostFacts& host,
                                  const Hardware& hardware, const LayoutSpace& space) {
  LayoutFront front;
  return search(config, host, hardware, space, front);
}

}  // namespace trireme
