#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "graph/work.h"
#include "program/rank_plan.h"
#include "spec/hardware.h"
#include "spec/run_config.h"

namespace trireme {

// What the plan must know about the machine and the data.
struct HostFacts {
  int64_t memory_bytes = 0;  // available to this host's ranks; 0: unknown, nothing is refused
  int num_cores = 1;
  int64_t data_vocab_size = 0;  // of the tokenizer or token file; 0: none
  int ranks_on_host = 0;        // 0: all of the run's
  // From a file that all ranks read: what parallel.schedule = "auto" is searched for. Absent:
  // relative times of the FLOPs, and transfers that take none.
  std::optional<Hardware> hardware = {};
};

// Ranks that do the same at the same time: they stand at one place of the pipeline, and their
// tables and shards have the same sizes. Each of them needs the same memory.
struct RankClass {
  int first = 0;      // the lowest position in the mesh
  int num_ranks = 0;  // how many there are
  MemoryBytes memory;
};

// A run compiled before it starts: everything that the runtime executes and the reports print. What
// one rank executes is rank_plan(plan, position).
struct RunPlan {
  RunConfig config;
  ModelSpec model;
  Mesh mesh;
  StageShape shape;
  AccumulateMode mode = AccumulateMode::Fixed;
  Schedule schedule;              // of one pipeline, with transfers, before data parallelism
  std::vector<StageSpec> stages;  // [stage] of the pipeline
  std::shared_ptr<const NormChunks> norm_chunks;  // plans of one search share them
  std::vector<RankPlan> pipeline;                 // [pp] the ranks with index 0 on other axes
  std::vector<RankClass> classes;                 // by their first ranks
  std::vector<int> class_of;                      // [mesh position] index in classes

  std::optional<Hardware> hardware;  // HostFacts::hardware
  int64_t max_live = 0;              // of "auto": micro-batches alive on a rank; 0: any number
  int num_threads = 1;               // per rank
  int64_t global_sequences = 0;
  int64_t num_microbatches = 0;  // of a pipeline and step: gradient accumulation
  int64_t num_params = 0;
  ModelFlops flops_per_token;

  int64_t tokens_per_step() const { return global_sequences * model.seq_len; }
  int num_ranks() const { return mesh.size(); }
  bool is_asynchronous() const { return config.parallel.staleness > 0; }
  // Every parameter, uncut and at all times.
  bool holds_whole_model(const RankPlan& rank) const;
  const RankClass& class_at(int position) const {
    return classes[size_t(class_of[size_t(position)])];
  }
  int64_t arena_bytes() const;          // of all ranks
  const RankClass& largest() const;     // the class whose ranks have the largest arenas
  int64_t greatest_peak_bytes() const;  // of any rank
};

// What the rank at a position of the mesh executes and holds.
RankPlan rank_plan(const RunPlan& plan, int position);

// The plans of all ranks, [position]: for meshes of few ranks.
std::vector<RankPlan> rank_plans(const RunPlan& plan);

// A plan before it is compiled: configuration, model, mesh, shape and batch. Refuses what
// validate_with_data() refuses, and nothing else.
Result<RunPlan> start_plan(const RunConfig& config, const HostFacts& host);

// What is available: to each rank where memory.limit_bytes says so, else to all together; 0:
// unknown.
int64_t memory_limit(const RunPlan& plan, const HostFacts& host);

}  // namespace trireme
