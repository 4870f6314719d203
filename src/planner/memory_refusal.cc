#include "planner/memory_refusal.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/or_list.h"
#include "base/units.h"
#include "planner/alternatives.h"
#include "planner/compile_to_fit.h"
#include "planner/layout_choice.h"
#include "program/action_legend.h"

namespace trireme {
namespace {

constexpr OffloadChoice kOffloads[] = {OffloadChoice::None, OffloadChoice::Optimizer,
                                       OffloadChoice::All};

// The values of memory.offload that leave less in memory than the configured one.
std::span<const OffloadChoice> more_offloads(const MemoryConfig& memory) {
  return std::span<const OffloadChoice>(kOffloads).subspan(size_t(memory.offload) + 1);
}

// True if the plan is of one worker of an asynchronous run, whose copy of the model is whole and in
// memory.
bool is_worker(const RunPlan& plan, const HostFacts& host) {
  return host.ranks_on_host > plan.num_ranks();
}

bool shares_one_host(const RunPlan& plan, const HostFacts& host) {
  return plan.config.memory.limit_bytes == 0 &&
         (host.ranks_on_host == 0 || host.ranks_on_host == plan.num_ranks());
}

// Ways to store tensors: the configured one first, then those that move or copy more (ZeRO, files,
// both).
std::vector<RunConfig> storages(const RunPlan& refused, const HostFacts& host) {
  std::vector<RunConfig> all = {refused.config};
  if (is_worker(refused, host)) return all;
  const int zero = refused.config.parallel.zero;
  const int most_zero = refused.mesh.dp == 1 ? zero : 3;
  const auto add = [&](int level, OffloadChoice offload) {
    all.push_back(refused.config);
    all.back().parallel.zero = level;
    all.back().memory.offload = offload;
  };
  for (int level = zero + 1; level <= most_zero; ++level) add(level, refused.config.memory.offload);
  for (const int level : {zero, most_zero}) {
    for (const OffloadChoice more : more_offloads(refused.config.memory)) add(level, more);
    if (level == most_zero) break;
  }
  return all;
}

bool can_narrow_moments(const RunPlan& plan) {
  const OptimizerStateSpec& state = plan.shape.optimizer_state;
  return (state.exp_avg || state.exp_avg_sq) && state.moment == DType::F32;
}

// Without a capacity, all tokens of an ep group may choose the experts of one rank, which has
// memory for all of them.
bool may_limit_experts(const RunPlan& plan) {
  return plan.model.experts > 0 && plan.model.capacity_factor == 0.0 && plan.mesh.ep > 1;
}
constexpr double kUsualCapacity = 1.25;

// Tries recomputation and smaller micro-batches for each way to store tensors, cheapest first.
class Changes {
 public:
  Changes(const RunPlan& refused, const HostFacts& host, int64_t limit)
      : refused_(refused), host_(host), limit_(limit) {
    for (int64_t micro = refused.shape.micro_sequences; micro >= 1; micro /= 2) {
      if (refused.global_sequences / refused.mesh.dp % micro == 0) micros_.push_back(micro);
    }
  }

  // Returns the options of the first change that fits, or "". A searched schedule fits where 1F1B
  // does, which is compiled much faster. If what is stored alone does not fit, the schedule is not
  // what matters, and none is searched.
  std::string first_that_fits() {
    if (refused_.config.parallel.schedule == ScheduleKind::Auto) {
      searches_ = false;
      const std::string found = cheapest_that_fits();
      if (!found.empty() || least_bytes_of_storage(refused_) > limit_) return found;
      searches_ = true;
    }
    return cheapest_that_fits();
  }
  // True if all schedules that were tried are 1F1B, where "auto" would search others.
  bool has_tried_1f1b_alone() const { return !searches_; }
  int64_t least_bytes() const { return least_bytes_; }  // the smallest of those that do not fit

 private:
  // Fewer threads are tried late, because they save workspace at the cost of compute. Narrow
  // moments and a capacity of experts come last, because they change the trained numbers.
  std::string cheapest_that_fits() {
    const std::vector<RunConfig> all = storages(refused_, host_);
    for (const RunConfig& storage : all) {
      const bool is_configured = &storage == &all.front();
      if (!is_configured && !fits_somehow(storage)) continue;
      const std::string found = first_that_fits(storage);
      if (!found.empty()) return found;
    }
    for (int threads = refused_.num_threads / 2; threads >= 1; threads /= 2) {
      RunConfig config = refused_.config;
      config.run.threads_per_rank = threads;
      if (fits(config, refused_.shape.recompute, refused_.shape.micro_sequences)) return found_;
    }
    for (RunConfig storage : all) {
      if (refused_.num_threads == 1) break;
      storage.run.threads_per_rank = 1;
      if (!fits_somehow(storage)) continue;
      const std::string found = first_that_fits(storage);
      if (!found.empty()) return found;
    }
    std::vector<RunConfig> others;  // these change the trained numbers
    if (can_narrow_moments(refused_)) {
      others = all;
      for (RunConfig& other : others) other.optim.moment_dtype = StateChoice::Bf16;
    }
    for (RunConfig storage : all) {
      if (!may_limit_experts(refused_)) break;
      storage.model.capacity_factor = kUsualCapacity;
      others.push_back(std::move(storage));
    }
    for (const RunConfig& storage : others) {
      if (!fits_somehow(storage)) continue;
      const std::string found = first_that_fits(storage);
      if (!found.empty()) return found;
    }
    return "";
  }

  std::string first_that_fits(const RunConfig& storage) {
    const Recompute own = refused_.shape.recompute;
    for (const int64_t micro : micros_) {
      if (fits(storage, own, micro)) return found_;
    }
    for (const int64_t micro : micros_) {
      for (const Recompute more : {Recompute::Selective, Recompute::Full}) {
        if (more > own && fits(storage, more, micro)) return found_;
      }
    }
    return "";
  }

  // Tries only the smallest settings. Both recomputations are tried, because for a single layer
  // recomputation needs more memory than it saves.
  bool fits_somehow(const RunConfig& storage) {
    return fits(storage, Recompute::Full, micros_.back()) ||
           fits(storage, refused_.shape.recompute, micros_.back());
  }

  bool fits(RunConfig config, Recompute recompute, int64_t micro) {
    config.memory.recompute = recompute;
    if (micro != refused_.shape.micro_sequences) {
      config.batch.micro_sequences = micro;
      if (config.batch.global_tokens == 0)
        config.batch.global_sequences = refused_.global_sequences;
    }
    const std::string options = set_options(refused_.config, config);
    if (options.empty()) return false;
    Result<RunPlan> plan = start_plan(config, host_);
    if (!plan.ok()) return false;
    const Status compiled = searches_ ? compile_to_fit(*plan, limit_) : compile_unsearched(*plan);
    if (!compiled.ok()) return false;
    const int64_t bytes = bytes_to_fit(*plan);
    least_bytes_ = std::min(least_bytes_, bytes);
    found_ = fmt::format("{} (needs {})", options, format_bytes(bytes));
    return bytes <= limit_;
  }

  const RunPlan& refused_;
  const HostFacts& host_;
  int64_t limit_;
  bool searches_ = true;
  std::vector<int64_t> micros_;
  std::string found_;
  int64_t least_bytes_ = std::numeric_limits<int64_t>::max();
};

// Gradients that no change removes: files do not take them, and ZeRO only divides those of a rank
// among the ranks of its host. 0 if another host could take a part.
int64_t gradients_that_stay(const RunPlan& refused, const HostFacts& host) {
  const bool can_leave = refused.mesh.dp > 1 && !shares_one_host(refused, host);
  if (refused.config.parallel.zero > 1 || refused.mesh.pp > 1 || can_leave) return 0;
  return refused.tightest().memory.class_bytes[int(MemoryClass::Grads)];
}

// A sentence that ends with a space, or "".
std::string why_experts_are_large(const RunPlan& refused) {
  if (!may_limit_experts(refused)) return "";
  return fmt::format(
      "Experts drop no token (model.capacity_factor = 0.0), so each rank has memory for the tokens "
      "of all {} ranks of ep. ",
      refused.mesh.ep);
}

std::string remedy(const RunPlan& refused, int64_t limit, const HostFacts& host) {
  // Trying all changes on a model that is far too large would take seconds.
  const int64_t gradients =
      std::max(gradients_that_stay(refused, host), least_bytes_of_gradients(refused));
  Changes changes(refused, host, limit);
  const std::string change = gradients > limit ? "" : changes.first_that_fits();
  const std::string why = why_experts_are_large(refused);
  if (!change.empty()) return fmt::format("{}Cheapest change that fits: {}.", why, change);
  std::vector<std::string> ways = {"recomputation", "micro-batch"};
  if (!is_worker(refused, host)) {
    if (refused.mesh.dp > 1) ways.push_back("parallel.zero");
    ways.push_back("memory.offload");
  }
  if (refused.num_threads > 1) ways.push_back("run.threads_per_rank");
  if (gradients <= limit && can_narrow_moments(refused)) ways.push_back("optim.moment_dtype");
  if (gradients <= limit && may_limit_experts(refused)) ways.push_back("model.capacity_factor");
  const std::string least =
      gradients > limit
          ? fmt::format("its gradients alone need {}", format_bytes(gradients))
          : fmt::format("the smallest configuration needs {}",
                        format_bytes(std::min(changes.least_bytes(), bytes_to_fit(refused))));
  return fmt::format("{}No {} makes it fit{}; {}. Use a smaller model or {}.", why, or_list(ways),
                     changes.has_tried_1f1b_alone() ? " with schedule 1f1b" : "", least,
                     shares_one_host(refused, host) || is_worker(refused, host)
                         ? "a machine with more memory"
                         : "more ranks, or ranks with more memory");
}

// Names the largest tensor, or the kernels' workspace if it is larger than every class of tensors.
std::string largest_piece(const RunPlan& plan, const RankPlan& rank) {
  const MemoryPlan& memory = rank.memory;
  int64_t most = 0;
  for (int c = 0; c < kNumMemoryClasses; ++c) {
    if (MemoryClass(c) != MemoryClass::Scratch) most = std::max(most, memory.class_bytes[c]);
  }
  const int64_t workspace = memory.regions[size_t(memory.workspace)].bytes;
  if (workspace <= most) return "largest tensor " + largest_tensor(memory, rank.chunks);
  return fmt::format("the largest piece is the kernels' workspace, {} for {} thread{}",
                     format_bytes(workspace), plan.num_threads, plan.num_threads == 1 ? "" : "s");
}

std::string classes_text(const MemoryPlan& memory) {
  std::string text;
  for (int c = 0; c < kNumMemoryClasses; ++c) {
    if (memory.class_bytes[c] == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name_of(static_cast<MemoryClass>(c)),
                        format_bytes(memory.class_bytes[c]));
  }
  return text;
}

bool is_mixed(const RunPlan& plan) { return plan.hardware && plan.hardware->is_mixed(); }

// Names a rank whose own device is too small.
std::string available_on_device(const RunPlan& plan, const RankClass& tightest, int64_t limit) {
  return fmt::format("rank {} has {} on its device, {}", tightest.first,
                     format_bytes(limit - tightest.lacks_bytes),
                     plan.hardware->all_of_device(tightest.device).name);
}

}  // namespace

Error memory_refusal(const RunPlan& plan, int64_t limit, const HostFacts& host) {
  const RankClass& tightest = plan.tightest();
  const RankPlan largest = rank_plan(plan, tightest.first);
  const MemoryPlan& memory = largest.memory;
  const bool is_alone = plan.num_ranks() == 1;
  const int64_t lacked = is_mixed(plan) ? tightest.lacks_bytes : 0;
  const std::string needed = format_bytes(bytes_to_fit(plan) - lacked);
  const std::string of_largest = format_bytes(memory.arena_bytes);
  const std::string who =
      is_alone ? "the plan"
      : needed == of_largest
          ? fmt::format("the plan of the largest of {} ranks", plan.num_ranks())
          : fmt::format("the plan ({} ranks, the largest of {})", plan.num_ranks(), of_largest);
  const bool is_shared = !is_alone && shares_one_host(plan, host);
  const std::string available =
      is_mixed(plan) ? available_on_device(plan, tightest, limit)
      : is_shared    ? fmt::format("this machine has {} for all ranks", format_bytes(limit))
                     : format_bytes(limit) + " is available";
  const Action& moment = largest.program[size_t(memory.peak_action)];
  return {ErrorKind::Infeasible,
          fmt::format("{} needs {} but {}: the peak is at action {} ({}), {} of {}; {}; {}. {}",
                      who, needed, available, to_string(moment, plan.schedule.num_chunks),
                      action_legend({moment}, plan.schedule.num_chunks), memory.peak_action + 1,
                      largest.program.size(), largest_piece(plan, largest), classes_text(memory),
                      remedy(plan, limit, host))};
}

std::string offload_that_fits(const RunConfig& config, const HostFacts& host) {
  for (const OffloadChoice more : more_offloads(config.memory)) {
    RunConfig other = config;
    other.memory.offload = more;
    Result<RunPlan> plan = start_plan(other, host);
    if (!plan.ok()) continue;
    const int64_t limit = memory_limit(*plan, host);
    if (!compile_to_fit(*plan, limit).ok() || bytes_to_fit(*plan) > limit) continue;
    return fmt::format("{} (needs {})", set_options(config, other),
                       format_bytes(bytes_to_fit(*plan)));
  }
  return "";
}

}  // namespace trireme
