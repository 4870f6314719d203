#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "graph/work.h"
#include "program/rank_plan.h"
#include "schema/hardware.h"
#include "schema/run_config.h"

namespace trireme {

class PlanParts;

// Facts about the machine and the data that planning needs.
struct HostFacts {
  int64_t memory_bytes = 0;  // available to the ranks of this host; 0: unknown, no plan is refused
  int num_cores = 1;
  int64_t data_vocab_size = 0;  // of the tokenizer or token file; 0: unknown
  double document_keys = 0.0;   // StageShape::document_keys
  int ranks_on_host = 0;        // 0: all ranks of the run
  // Read from a file that all ranks have; parallel.schedule = "auto" is searched with it. If
  // absent, the search uses relative times from the FLOPs and free transfers.
  std::optional<Hardware> hardware = {};
};

// Ranks that do the same at the same time: they are at one stage of the pipeline, their tables and
// shards have the same sizes, and they have the same device. Each of them needs the same memory.
struct RankClass {
  int first = 0;  // lowest position in the mesh
  int num_ranks = 0;
  int device = 0;  // Hardware::device_of its ranks
  MemoryBytes memory;
  int same_memory_as = -1;  // index of an earlier class that differs only in the device; -1: none
  int64_t lacks_bytes = 0;  // what its device has less than memory.limit_bytes

  // The bytes that must be within memory.limit_bytes, so that the class fits its own device.
  int64_t needed_bytes() const { return memory.arena_bytes + lacks_bytes; }
};

// A run compiled before it starts: everything that the runtime executes and the reports print.
// rank_plan(plan, position) returns what one rank executes.
struct RunPlan {
  RunConfig config;
  ModelSpec model;
  Mesh mesh;
  StageShape shape;  // with the degrees of `mesh`; shape_at has those of a place
  AccumulateMode mode = AccumulateMode::Fixed;
  Schedule schedule;              // of one pipeline, with transfers, before data parallelism
  std::vector<StageSpec> stages;  // [stage] of the pipeline
  // [stage] parallel.stage_layers, or the split of the program whose published run is priced;
  // empty: layers are split into stages of equal cost.
  std::vector<int64_t> layers_of_stage;
  std::shared_ptr<const NormChunks> norm_chunks;  // shared by all plans of one search
  std::vector<RankPlan> pipeline;                 // [pp] the ranks with index 0 on all other axes
  std::vector<RankClass> classes;                 // sorted by their first ranks
  std::vector<int> class_of;                      // [mesh position] index in classes

  std::optional<Hardware> hardware;  // HostFacts::hardware
  bool takes_snapshots = false;      // checkpoints are copied into a planned buffer, then written
  int64_t max_live = 0;              // for "auto": micro-batches alive on a rank; 0: any number
  int num_threads = 1;               // per rank
  int64_t global_sequences = 0;
  int64_t num_microbatches = 0;  // of one pipeline in one step (gradient accumulation)
  int64_t num_params = 0;
  ModelFlops flops_per_token;

  int64_t tokens_per_step() const { return global_sequences * model.seq_len; }
  int num_ranks() const { return mesh.size(); }
  // Returns the shape of the ranks at a place of the pipeline, with the index 0 on all axes.
  StageShape shape_at(int place) const;
  // Returns the place of the pipeline that holds a stage; of two, the lower one.
  int place_of(int stage) const;
  bool is_asynchronous() const { return config.parallel.staleness > 0; }
  // True if the rank always holds every parameter, unsharded.
  bool holds_whole_model(const RankPlan& rank) const;
  const RankClass& class_at(int position) const {
    return classes[size_t(class_of[size_t(position)])];
  }
  int64_t arena_bytes() const;          // of all ranks
  const RankClass& largest() const;     // the class with the largest arena
  const RankClass& tightest() const;    // the class with the greatest needed_bytes()
  int64_t greatest_peak_bytes() const;  // over all ranks
};

// True if the configuration wants checkpoints of which training does not wait for the disk. The
// last save of a run is always waited for, so it needs no buffer. State that lies in a file
// (memory.offload) is not copied into memory.
bool wants_snapshots(const RunConfig& config);
// True if the ranks of a launched job keep checkpoints in the memory of their host.
bool wants_memory_checkpoints(const RunConfig& config);

// Returns what the rank at a position of the mesh executes and holds. Tables that `parts` has of
// other plans are taken from there.
RankPlan rank_plan(const RunPlan& plan, int position, PlanParts* parts = nullptr);

// Returns the plans of all ranks, [position]. Use it only for small meshes.
std::vector<RankPlan> rank_plans(const RunPlan& plan);

// A plan before it is compiled: configuration, model, mesh, shape and batch. Refuses what
// validate_with_data() refuses, and nothing else.
Result<RunPlan> start_plan(const RunConfig& config, const HostFacts& host);

// Available bytes: of each rank if memory.limit_bytes is set, else of all ranks together. 0:
// unknown.
int64_t memory_limit(const RunPlan& plan, const HostFacts& host);

}  // namespace trireme
