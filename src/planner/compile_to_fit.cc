#include "planner/compile_to_fit.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "compile/compile_plan.h"
#include "compile/stage_cost.h"
#include "graph/param_table.h"
#include "memory/stage_tables.h"
#include "planner/recompute_to_fit.h"
#include "predict/predict.h"
#include "program/make_schedule.h"

namespace trireme {
namespace {

// Keeps the fastest of the offered plans that fit the limit.
class Fitting {
 public:
  explicit Fitting(int64_t limit) : limit_(limit) {}

  bool offer(RunPlan&& plan) {
    if (bytes_to_fit(plan) > limit_) return false;
    const Hardware hardware = plan.hardware.value_or(nominal_hardware());
    const double makespan_s = simulate_plan(plan, hardware).value().makespan_s;
    if (best_ && makespan_s >= best_makespan_s_) return true;
    best_ = std::move(plan);
    best_makespan_s_ = makespan_s;
    return true;
  }
  std::optional<RunPlan>& best() { return best_; }

 private:
  int64_t limit_;
  std::optional<RunPlan> best_;
  double best_makespan_s_ = 0;
};

// Offers plans with fewer micro-batches alive, by binary search.
void offer_narrower(const RunPlan& plan, Fitting& fitting) {
  int64_t too_many = plan.num_microbatches;
  for (int64_t fits = 0; too_many - fits > 1;) {
    RunPlan narrower = plan;
    narrower.max_live = (fits + too_many) / 2;
    const int64_t tried = narrower.max_live;
    const bool is_possible = compile_plan(narrower).ok();
    (is_possible && !fitting.offer(std::move(narrower)) ? too_many : fits) = tried;
  }
}

// Offers the named schedules: with B and W merged they may need less memory than a searched
// schedule that splits them.
void offer_named(const RunPlan& plan, Fitting& fitting) {
  for (const ScheduleKind kind : kNamedSchedules) {
    if (traits_of(kind).param_copies() > 1) continue;
    RunPlan named = plan;
    named.config.parallel.schedule = kind;
    if (!compile_plan(named).ok()) continue;
    named.config.parallel.schedule = plan.config.parallel.schedule;
    named.schedule.kind = plan.schedule.kind;
    fitting.offer(std::move(named));
  }
}

// Bytes of one copy of the model, by what holds them.
struct ModelBytes {
  int64_t params = 0;
  int64_t grads = 0;
  int64_t optimizer = 0;
};

ModelBytes one_copy(const RunPlan& plan) {
  const std::vector<ParamSpec> params = param_table(plan.model, whole_model(plan.model));
  ModelBytes bytes;
  for (const ParamSpec& param : params) {
    const int64_t elements = param.shape.num_elements();
    bytes.params += elements * size_of(plan.shape.compute);
    if (param.is_trained) bytes.grads += elements * size_of(plan.shape.grad);
  }
  const TensorTable state = optimizer_table(params, plan.shape.compute, plan.shape.optimizer_state);
  for (const TensorSpec& tensor : state.tensors()) {
    bytes.optimizer += tensor.shape.num_elements() * size_of(tensor.dtype);
  }
  return bytes;
}

// Returns how many copies of what ZeRO leaves whole all ranks hold at least.
int64_t num_whole_copies(const RunPlan& plan) {
  int dp = plan.mesh.dp;
  for (int pp = 0; pp < plan.mesh.pp; ++pp) dp = std::min(dp, plan.mesh.dp_at(pp));
  return std::max(1, dp * plan.mesh.cp / plan.mesh.ep);  // experts have the fewest copies
}

}  // namespace

int64_t bytes_to_fit(const RunPlan& plan) {
  if (plan.config.memory.limit_bytes == 0) return plan.arena_bytes();
  return plan.tightest().needed_bytes();
}

int64_t least_bytes_of_gradients(const RunPlan& plan) {
  if (plan.model.trains_in_part()) return 0;
  const int64_t bytes = num_params(plan.model) * size_of(plan.shape.grad);
  return plan.config.memory.limit_bytes == 0 ? bytes : bytes / plan.num_ranks();
}

int64_t least_bytes_of_storage(const RunPlan& plan) {
  const ParallelConfig& parallel = plan.config.parallel;
  const bool has_servers = parallel.sync == GradSync::ParameterServer;
  const OffloadChoice offload = plan.config.memory.offload;
  const ModelBytes model = one_copy(plan);
  const int64_t copies = num_whole_copies(plan);
  const auto held = [&](int64_t bytes, bool is_sharded) {
    return bytes * (is_sharded ? 1 : copies);
  };
  int64_t bytes = held(model.grads, parallel.zero >= 2 || has_servers);
  if (offload != OffloadChoice::All) bytes += held(model.params, parallel.zero >= 3);
  if (offload == OffloadChoice::None) {
    bytes += held(model.optimizer, parallel.zero >= 1 || has_servers);
  }
  return plan.config.memory.limit_bytes == 0 ? bytes : bytes / plan.num_ranks();
}

// The search of a schedule would take long. 1F1B has one chunk per rank.
Status compile_unsearched(RunPlan& plan) {
  plan.takes_snapshots = false;
  const bool has_1f1b = plan.config.parallel.chunks <= 1;
  if (plan.config.parallel.schedule != ScheduleKind::Auto || !has_1f1b) return compile_plan(plan);
  plan.config.parallel.schedule = ScheduleKind::OneFOneB;
  const Status compiled = compile_plan(plan);
  plan.config.parallel.schedule = ScheduleKind::Auto;
  return compiled;
}

Status compile_to_fit(RunPlan& plan, int64_t limit) {
  const bool is_hopeless =
      limit > 0 && (least_bytes_of_gradients(plan) > limit || least_bytes_of_storage(plan) > limit);
  if (is_hopeless) return compile_unsearched(plan);
  plan.takes_snapshots = wants_snapshots(plan.config);
  TRIREME_TRY_DONE(compile_plan(plan));
  if (limit <= 0 || bytes_to_fit(plan) <= limit) return Done{};
  if (plan.takes_snapshots) {  // a save that waits for the disk costs less than recomputation
    plan.takes_snapshots = false;
    TRIREME_TRY_DONE(compile_plan(plan));
    if (bytes_to_fit(plan) <= limit) return Done{};
  }
  if (plan.shape.recompute == Recompute::Fit) {
    TRIREME_TRY_DONE(recompute_to_fit(plan, limit));
    if (bytes_to_fit(plan) <= limit) return Done{};
  }
  if (plan.config.parallel.schedule != ScheduleKind::Auto) return Done{};
  Fitting fitting(limit);
  offer_narrower(plan, fitting);
  offer_named(plan, fitting);
  if (fitting.best()) plan = *std::move(fitting.best());
  return Done{};
}

}  // namespace trireme
