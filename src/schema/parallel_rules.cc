#include "schema/parallel_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>

#include "schema/batch.h"
#include "schema/degree_rules.h"
#include "schema/mesh_order.h"
#include "schema/schedule_shape.h"
#include "schema/stage_rules.h"

namespace trireme {
namespace {

constexpr int64_t kMostRanks = int64_t{1} << 20;

void rank_count_rules(ConfigRules& rules, const ParallelConfig& parallel) {
  const double ranks =
      double(parallel.dp) * double(parallel.tp) * double(parallel.pp) * double(parallel.cp);
  rules.require(ranks <= double(kMostRanks), "parallel.dp",
                fmt::format("gives {:.0f} ranks (dp * tp * pp * cp); a run has at most {}", ranks,
                            kMostRanks),
                "take smaller degrees");
}

void order_rules(ConfigRules& rules, const ParallelConfig& parallel) {
  const Result<MeshOrder> order = parse_mesh_order(parallel.order);
  if (order.ok()) return;
  rules.require(false, "parallel.order", order.error().message,
                fmt::format("name each of tp, cp, pp and dp once, innermost first, such as \"{}\"",
                            to_string(kUsualOrder)));
}

// Chunks per rank. A search for a schedule begins with one.
int chunks_of(const ParallelConfig& parallel) {
  if (parallel.chunks > 0) return parallel.chunks;
  return parallel.schedule == ScheduleKind::Auto ? 1 : default_chunks(parallel.schedule);
}

// Every stage but the last one has a layer, and the schedule takes the numbers of stages, chunks
// and micro-batches.
void schedule_rules(ConfigRules& rules, const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  const int64_t layers = config.model.layers;
  if (parallel.pp < 1 || parallel.chunks < 0 || layers < 1) return;
  const bool is_auto = parallel.schedule == ScheduleKind::Auto;
  const int chunks = chunks_of(parallel);
  // There are half as many stages where each is held by two ranks.
  const int copies = is_auto ? 1 : traits_of(parallel.schedule).param_copies();
  const int64_t num_stages = int64_t{parallel.pp} * chunks / copies;
  // A last stage with modules, or where it is stated, may have the head alone.
  const bool may_end_without = config.model.mtp_depth > 0 || !parallel.stage_layers.empty();
  rules.require(
      num_stages <= layers + (may_end_without ? 1 : 0),
      parallel.pp > 1 ? "parallel.pp" : "parallel.chunks",
      fmt::format("gives {} stages (pp * chunks) for model.layers = {}", num_stages, layers),
      "take fewer stages or more layers",
      parallel.chunks > 0 ? ErrorKind::Usage : ErrorKind::Infeasible);
  const int64_t num_microbatches = microbatches_of_step(config);
  if (num_microbatches < 1) return;  // reported by batch_rules
  const ScheduleShape shape{parallel.pp, int(std::min<int64_t>(num_microbatches, INT_MAX)), chunks};
  const std::optional<ShapeProblem> problem =
      is_auto ? problem_of_counts(shape) : problem_of_shape(parallel.schedule, shape);
  if (!problem) return;
  rules.require(false, "parallel.schedule", "cannot be: " + problem->rule, problem->remedy,
                problem->kind);
}

// Workers that do not wait for each other are copies of the whole model.
void staleness_rules(ConfigRules& rules, const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  rules.at_least("parallel.staleness", parallel.staleness, 0);
  if (parallel.staleness <= 0) return;
  const auto need = [&](bool holds, std::string remedy, ErrorKind kind = ErrorKind::Infeasible) {
    rules.require(holds, "parallel.staleness",
                  "trains copies of the whole model that do not wait for each other",
                  std::move(remedy), kind);
  };
  need(parallel.sync == GradSync::ParameterServer && parallel.servers == 1,
       "set parallel.sync = \"parameter_server\" and parallel.servers = 1", ErrorKind::Usage);
  const bool is_whole = parallel.tp == 1 && parallel.pp == 1 && parallel.cp == 1 &&
                        parallel.ep == 1 && parallel.zero == 0;
  need(is_whole, "set parallel.tp, pp, cp and ep to 1 and parallel.zero to 0");
  const bool has_one_stage = parallel.schedule != ScheduleKind::Auto && chunks_of(parallel) == 1;
  need(has_one_stage, "set parallel.schedule = \"1f1b\" and parallel.chunks = 0");
  need(config.memory.offload == OffloadChoice::None && !config.optim.post_validate,
       "set memory.offload = \"none\" and optim.post_validate = false");
  need(config.precision.compute != ComputeChoice::Fp16,
       "they have no loss scale: set precision.compute = \"bf16\"");
  need(config.run.backend == BackendChoice::Local,
       "its ranks are threads: set run.backend = \"local\"");
}

}  // namespace

void parallel_rules(ConfigRules& rules, const RunConfig& config, int64_t data_vocab_size) {
  const ParallelConfig& parallel = config.parallel;
  rules.size("parallel.dp", parallel.dp, 1, kMostRanks);
  rules.size("parallel.tp", parallel.tp, 1, kMostRanks);
  rules.size("parallel.pp", parallel.pp, 1, kMostRanks);
  rules.size("parallel.cp", parallel.cp, 1, kMostRanks);
  rules.size("parallel.ep", parallel.ep, 1, kMostRanks);
  rules.size("parallel.chunks", parallel.chunks, 0, kMostRanks);
  rank_count_rules(rules, parallel);
  order_rules(rules, parallel);
  schedule_rules(rules, config);
  stage_rules(rules, config);
  degree_rules(rules, config, data_vocab_size);
  rules.require(parallel.zero >= 0 && parallel.zero <= 3, "parallel.zero", "is unknown",
                "use 0, 1, 2 or 3");
  rules.at_least("parallel.hsdp_shard", parallel.hsdp_shard, 0);
  const bool has_servers = parallel.sync == GradSync::ParameterServer;
  rules.require(parallel.servers >= 1 && (!has_servers || parallel.servers <= parallel.dp),
                "parallel.servers", "must be between 1 and parallel.dp", "try 1");
  rules.require(
      !has_servers || (parallel.ep == 1 && parallel.hsdp_shard == 0), "parallel.sync",
      "keeps all parameters on the servers, so experts and shards cannot be on other ranks",
      "set parallel.ep = 1 and parallel.hsdp_shard = 0, or sync = \"all_reduce\"");
  staleness_rules(rules, config);
  rules.at_least("parallel.bucket_bytes", double(parallel.bucket_bytes), 0);
  rules.in_range("parallel.prefetch", parallel.prefetch, 0, 1024);
  rules.divides("parallel.hsdp_shard", parallel.hsdp_shard, "parallel.dp", parallel.dp);
}

}  // namespace trireme
