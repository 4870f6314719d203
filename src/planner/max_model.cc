#include "planner/max_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/units.h"
#include "planner/make_plan.h"
#include "schema/schedule_shape.h"

namespace trireme {
namespace {

constexpr int64_t kEvenWidth = 64;  // d_ff stays a multiple of this if it is one
constexpr OffloadChoice kSizedOffloads[] = {OffloadChoice::None, OffloadChoice::Optimizer,
                                            OffloadChoice::All};

// The multiple of `step` that is nearest to `value`, and at least `least`.
int64_t nearest_multiple(double value, int64_t step, int64_t least) {
  const int64_t nearest = int64_t(std::llround(value / double(step))) * step;
  return std::max(nearest, least);
}

// Tries the sizes of one ZeRO level and offload.
class Bisection {
 public:
  Bisection(RunConfig config, const HostFacts& host, const ModelSizes& sizes)
      : config_(std::move(config)), host_(host), sizes_(sizes) {}

  // Looks around `guess`, with steps that double, for a size that fits and one that does not, and
  // halves the distance between them.
  MaxModelRow run(int64_t guess) {
    int64_t fitting = 0, refused = 0;  // 0: not known yet
    for (int64_t step = 1, size = std::max<int64_t>(guess, 1);; step *= 2) {
      (fits(size) ? fitting : refused) = size;
      if (refused == 1 || (fitting > 0 && refused > 0)) break;
      size = fitting > 0 ? fitting + step : std::max<int64_t>(refused - step, 1);
    }
    while (refused - fitting > 1) {
      const int64_t middle = fitting + (refused - fitting) / 2;
      (fits(middle) ? fitting : refused) = middle;
    }
    MaxModelRow row = fitting > 0 ? tried_.at(fitting) : MaxModelRow{};
    row.zero = config_.parallel.zero;
    row.offload = config_.memory.offload;
    row.next_refused = tried_.at(refused).next_refused;
    return row;
  }

 private:
  bool fits(int64_t size) {
    config_.model = sizes_.at(size);
    MaxModelRow& row = tried_[size];
    row.size = size;
    row.model = config_.model;
    const Result<SizedPlan> sized = make_sized_plan(config_, host_);
    if (!sized.ok()) {
      row.next_refused = sized.error().message;
      return false;
    }
    row.params = sized->plan.num_params;
    row.needed_bytes = sized->needed_bytes;
    if (sized->fits()) return true;
    row.next_refused =
        fmt::format("{} parameters need {} of {}", format_count(double(row.params)),
                    format_bytes(sized->needed_bytes), format_bytes(sized->available_bytes));
    return false;
  }

  RunConfig config_;
  const HostFacts& host_;
  const ModelSizes& sizes_;
  std::map<int64_t, MaxModelRow> tried_;
};

Status check_supported(const RunConfig& config) {
  if (config.parallel.staleness == 0) return Done{};
  return usage(
      "--max-model needs parallel.staleness = 0: workers of an asynchronous run hold the "
      "whole model each");
}

}  // namespace

ModelSizes::ModelSizes(const RunPlan& started) : config_(started.config.model) {
  model_ = started.model;
  // A size keeps a whole d_model, and heads that tp and the all-to-all of cp share evenly.
  const bool shares_heads = started.config.parallel.context == ContextExchange::AllToAll;
  const int64_t divided = int64_t(started.mesh.tp) * (shares_heads ? started.mesh.cp : 1);
  const int64_t heads_of_width = model_.heads / std::gcd(model_.heads, model_.d_model);
  // Kv heads stay where tp does not share them evenly, and where that makes smaller steps, as the
  // models of one family do.
  const int64_t if_kept = std::lcm(model_.kv_heads, divided);
  const int64_t if_grown = divided * (model_.heads / model_.kv_heads);
  keeps_kv_heads_ = model_.kv_heads == 1 || model_.kv_heads % divided != 0 || if_kept < if_grown;
  const int64_t kv = keeps_kv_heads_ ? if_kept : if_grown;
  const int64_t step = std::lcm(kv, heads_of_width);
  heads_of_size_ = model_.heads % step == 0 ? step : model_.heads;
  const ParallelConfig& parallel = started.config.parallel;
  const bool is_auto = parallel.schedule == ScheduleKind::Auto;
  const int chunks = parallel.chunks > 0 ? parallel.chunks
                     : is_auto           ? 1
                                         : default_chunks(parallel.schedule);
  least_layers_ = int64_t(started.mesh.pp) * chunks;
  layers_step_ = std::gcd(model_.layers, least_layers_);
  d_ff_step_ = std::gcd(model_.d_ff, kEvenWidth * started.mesh.tp);
}

ModelConfig ModelSizes::at(int64_t size) const {
  const int64_t heads = size * heads_of_size_;
  const double ratio = double(heads) / double(model_.heads);
  ModelConfig config = config_;
  config.heads = heads;
  config.kv_heads = keeps_kv_heads_ ? model_.kv_heads : heads * model_.kv_heads / model_.heads;
  config.head_dim = model_.head_dim;
  config.d_model = heads * model_.d_model / model_.heads;
  config.d_ff = nearest_multiple(ratio * double(model_.d_ff), d_ff_step_, d_ff_step_);
  config.layers = nearest_multiple(ratio * double(model_.layers), layers_step_, least_layers_);
  config.dense_layers = std::min(model_.dense_layers, config.layers - 1);
  config.dense_d_ff = 0;
  if (config.dense_layers > 0) {
    config.dense_d_ff = nearest_multiple(ratio * double(model_.dense_d_ff), d_ff_step_, d_ff_step_);
  }
  return config;
}

Result<MaxModels> max_models(const RunConfig& config, const HostFacts& host) {
  TRIREME_TRY_DONE(check_supported(config));
  TRIREME_TRY(started, start_plan(config, host));
  MaxModels found;
  found.available_bytes = memory_limit(started, host);
  found.is_of_rank = config.memory.limit_bytes > 0;
  if (found.available_bytes == 0) {
    return usage(
        "--max-model: the memory of a device is unknown; write memory_bytes into the "
        "hardware file, or set memory.limit_bytes");
  }
  const ModelSizes sizes(started);
  for (int zero = 0; zero <= 3; ++zero) {
    for (const OffloadChoice offload : kSizedOffloads) {
      RunConfig other = config;
      other.parallel.zero = zero;
      other.memory.offload = offload;
      const int64_t guess = found.rows.empty() ? sizes.configured() : found.rows.back().size;
      found.rows.push_back(Bisection(std::move(other), host, sizes).run(guess));
      const MaxModelRow& row = found.rows.back();
      const bool is_configured = zero == config.parallel.zero && offload == config.memory.offload;
      if (is_configured) found.configured = row;
    }
  }
  return found;
}

}  // namespace trireme
