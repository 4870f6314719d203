#include "planner/remedies.h"

#include <functional>
#include <string_view>

#include "schema/mesh.h"

namespace trireme {
namespace {

constexpr int64_t kTriedBucketBytes = int64_t{64} << 20;

// Collects configurations that differ from the first one.
class ChangedConfigs {
 public:
  explicit ChangedConfigs(const RunConfig& config) : config_(config) {}

  void add(const std::function<void(RunConfig&)>& change) {
    all_.push_back(config_);
    change(all_.back());
  }
  void set_schedule(ScheduleKind kind) {
    if (config_.parallel.schedule == kind) return;
    add([&](RunConfig& other) {
      other.parallel.schedule = kind;
      other.parallel.chunks = 0;
    });
  }
  // Halves one degree and doubles dp.
  void move_to_dp(int ParallelConfig::*degree) {
    if (config_.parallel.*degree % 2 != 0 || states_places(config_.parallel)) return;
    add([&](RunConfig& other) {
      other.parallel.*degree /= 2;
      other.parallel.dp *= 2;
    });
  }
  void halve_micro_batches() {
    if (config_.batch.micro_sequences % 2 != 0) return;
    add([](RunConfig& other) { other.batch.micro_sequences /= 2; });
  }
  void double_micro_batches() {
    add([](RunConfig& other) { other.batch.micro_sequences *= 2; });
  }

  std::vector<RunConfig> take() && { return std::move(all_); }

 private:
  const RunConfig& config_;
  std::vector<RunConfig> all_;
};

void against_dp(const RunConfig& config, int ranks_per_node, ChangedConfigs& changes) {
  const ParallelConfig& parallel = config.parallel;
  for (int zero = 0; zero <= 2; ++zero) {
    if (zero == parallel.zero || parallel.zero == 0) continue;
    changes.add([&](RunConfig& other) { other.parallel.zero = zero; });
  }
  if (parallel.bucket_bytes != kTriedBucketBytes) {
    changes.add([](RunConfig& other) { other.parallel.bucket_bytes = kTriedBucketBytes; });
  }
  if (parallel.bucket_bytes != 0) {
    changes.add([](RunConfig& other) { other.parallel.bucket_bytes = 0; });
  }
  if (parallel.zero == 3) {
    changes.add([](RunConfig& other) { other.parallel.prefetch += 1; });
  }
  const int near = ranks_per_node / (parallel.tp * parallel.cp);
  if (parallel.zero > 0 && parallel.hsdp_shard == 0 && near > 1 && parallel.dp % near == 0 &&
      parallel.dp > near) {
    changes.add([&](RunConfig& other) { other.parallel.hsdp_shard = near; });
  }
  changes.double_micro_batches();
}

void against_tp(const RunConfig& config, ChangedConfigs& changes) {
  const ParallelConfig& parallel = config.parallel;
  if (!parallel.tp_overlap) {
    changes.add([](RunConfig& other) { other.parallel.tp_overlap = true; });
  }
  if (!parallel.sequence) {
    changes.add([](RunConfig& other) { other.parallel.sequence = true; });
    changes.add(
        [](RunConfig& other) { other.parallel.sequence = other.parallel.tp_overlap = true; });
  }
  changes.move_to_dp(&ParallelConfig::tp);
}

void against_cp(const RunConfig& config, ChangedConfigs& changes) {
  const bool is_ring = config.parallel.context == ContextExchange::Ring;
  changes.add([&](RunConfig& other) {
    other.parallel.context = is_ring ? ContextExchange::AllToAll : ContextExchange::Ring;
  });
  changes.move_to_dp(&ParallelConfig::cp);
}

}  // namespace

std::vector<RunConfig> changes_against_idle(const RunConfig& config) {
  ChangedConfigs changes(config);
  if (config.parallel.pp > 1) {
    for (const ScheduleKind kind :
         {ScheduleKind::OneFOneB, ScheduleKind::Interleaved, ScheduleKind::ZbH1, ScheduleKind::ZbH2,
          ScheduleKind::ZbV, ScheduleKind::DualpipeV}) {
      changes.set_schedule(kind);
    }
    changes.halve_micro_batches();
    changes.move_to_dp(&ParallelConfig::pp);
  }
  return std::move(changes).take();
}

std::vector<RunConfig> changes_against_exposed(const RunConfig& config, std::string_view axis,
                                               int ranks_per_node) {
  ChangedConfigs changes(config);
  if (axis == "dp") against_dp(config, ranks_per_node, changes);
  if (axis == "tp") against_tp(config, changes);
  if (axis == "cp") against_cp(config, changes);
  if (axis == "pp") {
    changes.set_schedule(ScheduleKind::OneFOneB);
    changes.move_to_dp(&ParallelConfig::pp);
  }
  if (axis == "ep" && config.parallel.ep % 2 == 0) {
    changes.add([](RunConfig& other) { other.parallel.ep /= 2; });
  }
  if (axis == "file" && config.memory.offload != OffloadChoice::None) {
    changes.add([](RunConfig& other) { other.memory.offload = OffloadChoice::None; });
  }
  return std::move(changes).take();
}

std::vector<RunConfig> changes_against_uneven_stages(const RunConfig& config) {
  ChangedConfigs changes(config);
  if (config.parallel.pp > 1) {
    changes.set_schedule(ScheduleKind::Interleaved);
    changes.set_schedule(ScheduleKind::ZbV);
    changes.move_to_dp(&ParallelConfig::pp);
  }
  return std::move(changes).take();
}

}  // namespace trireme
