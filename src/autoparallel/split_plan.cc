#include "autoparallel/split_plan.h"

#include <algorithm>

#include "autoparallel/pipeline_search.h"
#include "base/check.h"
#include "compile/link_cost.h"
#include "schema/image_net.h"

namespace trireme {
namespace {

int end_of(const std::vector<int>& operators, int op, int num_units) {
  return size_t(op) + 1 < operators.size() ? operators[size_t(op) + 1] : num_units;
}

// Returns the seconds in which a stage of so many ranks sends a micro-batch to its neighbour.
double message_seconds(const PlannedRun& run, const Hardware& hardware, int64_t sequences,
                       int ranks) {
  const LinkSpec link = pair_link(hardware, 0, ranks);
  return transfer_s(link, message_bytes(run, sequences) / double(ranks));
}

}  // namespace

double message_bytes(const PlannedRun& run, int64_t sequences) {
  const ModelSpec& model = run.model;
  const int64_t width = model.reads_images() ? largest_border(model) : model.d_model;
  return double(sequences * model.seq_len * width * size_of(run.base.compute));
}

StageSource by_op(ClusterStages& search) {
  StageSource source{
      [&search](const AskedStage& at) {
        return search.best_seconds(at.mix, at.first_unit, at.last_unit, at.num_ranks, at.in_flight);
      },
      [&search](const AskedStage& at) {
        return search.best(at.mix, at.first_unit, at.last_unit, at.num_ranks, at.in_flight);
      }};
  if (!search.has_many_kinds()) return source;
  source.bounds = [&search](const AskedStage& at) {
    return search.bounds(at.mix, at.first_unit, at.last_unit, at.num_ranks, at.in_flight);
  };
  source.tolerance = kWaysTolerance;
  return source;
}

std::optional<FoundPlan> split_plan(const PlannedRun& run, const ClusterStages& search,
                                    const StageSource& source, const std::vector<int>& operators,
                                    bool counts_messages) {
  const int64_t sequences = search.sequences();
  PipelineProblem problem;
  problem.num_operators = int(operators.size());
  problem.num_ranks = run.num_ranks;
  problem.mesh_sizes = mesh_sizes(run);
  problem.num_microbatches = search.num_microbatches();
  problem.most_stages = problem.num_operators;
  problem.gap = kSlowestStageGap;
  const auto units_of = [&](int first, int last) {
    return std::pair(operators[size_t(first)], end_of(operators, last, run.num_units()) - 1);
  };
  if (search.num_mixes() > 1) {
    problem.mix_of = [&](int first_rank, int size) {
      const int ranks = problem.mesh_sizes[size_t(size)];
      return may_lie(run, first_rank, ranks) ? search.mix_of(first_rank, ranks) : kNoStage;
    };
  }
  const auto asked = [&](int first, int last, int size, int in_flight, int mix) {
    const auto [begin, end] = units_of(first, last);
    return AskedStage{mix, begin, end, problem.mesh_sizes[size_t(size)], in_flight};
  };
  const auto message_s = [&](int size, int mix) {
    const int ranks = problem.mesh_sizes[size_t(size)];
    const bool counts = counts_messages && ranks < run.num_ranks;
    return counts ? message_seconds(run, search.hardware_of(mix), sequences, ranks) : 0.0;
  };
  problem.seconds = [&](int first, int last, int size, int in_flight, int mix) {
    return message_s(size, mix) + source.seconds(asked(first, last, size, in_flight, mix));
  };
  problem.tolerance = source.tolerance;
  if (source.bounds) {
    problem.bounds = [&](int first, int last, int size, int in_flight, int mix) {
      const SecondsBounds bounds = source.bounds(asked(first, last, size, in_flight, mix));
      return SecondsBounds{message_s(size, mix) + bounds.lower,
                           message_s(size, mix) + bounds.upper};
    };
  }
  const std::optional<PipelineSplit> split = split_pipeline(problem);
  if (!split) return std::nullopt;
  FoundPlan plan{.sequences = sequences, .num_microbatches = search.num_microbatches()};
  int first_rank = 0;
  for (size_t s = 0; s < split->stages.size(); ++s) {
    const PipelineStage& stage = split->stages[s];
    const auto [begin, end] = units_of(stage.first, stage.last);
    const int in_flight =
        int(std::min<int64_t>(int64_t(split->stages.size() - s), search.num_microbatches()));
    const int ranks = problem.mesh_sizes[size_t(stage.size)];
    const int mix = search.mix_of(first_rank, ranks);
    const auto best = source.best({mix, begin, end, ranks, in_flight});
    TRIREME_CHECK(best.has_value(), "a stage of the split fits");
    plan.stages.push_back(*best);
    first_rank += ranks;
  }
  simulate_plan(run, plan);
  return plan;
}

std::optional<FoundPlan> with_stages_of(const PlannedRun& run, const ClusterStages& search,
                                        const StageSource& source, const FoundPlan& plan) {
  FoundPlan found{.sequences = plan.sequences, .num_microbatches = plan.num_microbatches};
  int first_rank = 0;
  for (const StagePlan& stage : plan.stages) {
    const int mix = search.mix_of(first_rank, stage.num_ranks);
    auto best = source.best({mix, stage.first_unit, stage.first_unit + stage.num_units - 1,
                             stage.num_ranks, stage.in_flight});
    if (!best) return std::nullopt;
    found.stages.push_back(std::move(*best));
    first_rank += stage.num_ranks;
  }
  simulate_plan(run, found);
  return found;
}

}  // namespace trireme
