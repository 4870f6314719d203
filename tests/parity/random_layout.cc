#include "random_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <random>
#include <vector>

#include "base/check.h"
#include "compile/run_plan.h"
#include "planner/make_plan.h"
#include "program/make_schedule.h"
#include "schema/run_config_fields.h"
#include "schema/run_config_validate.h"

namespace trireme {
namespace {

constexpr int kMostRanks = 6;

// Reads configs/tiny-gpt2.toml.
RunConfig tiny_gpt2() {
  RunConfig config;
  config.model.layers = 4;
  config.model.d_model = 64;
  config.model.heads = 4;
  config.model.d_ff = 256;
  config.model.vocab_size = 256;
  config.model.seq_len = 64;
  config.data.source = DataSource::Synthetic;
  config.batch.global_sequences = 8;
  config.batch.micro_sequences = 1;
  config.optim.lr = 3e-3;
  config.optim.warmup_steps = 2;
  config.precision.compute = ComputeChoice::Fp32;
  config.run.steps = 20;
  return config;
}

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  RunConfig config() {
    config_ = tiny_gpt2();
    degrees();
    schedule();
    model();
    batch();
    data_parallelism();
    rest();
    return config_;
  }

 private:
  int below(int n) { return int(random_() % uint64_t(n)); }
  bool is_one_of(int n) { return below(n) == 0; }
  template <typename T>
  T any_of(std::initializer_list<T> values) {
    return *(values.begin() + below(int(values.size())));
  }
  template <Choice E>
  E any_name() {
    return E(below(int(choice_names<E>().size())));
  }
  int divisor_of(int number) {
    int divisor = 1 + below(number);
    while (number % divisor != 0) --divisor;
    return divisor;
  }

  // Half of the layouts have five or six ranks.
  void degrees() {
    ParallelConfig& parallel = config_.parallel;
    const int least = is_one_of(2) ? 2 : 5;
    do {
      for (int* degree : {&parallel.tp, &parallel.cp, &parallel.pp, &parallel.dp}) {
        *degree = is_one_of(2) ? 1 : 1 + below(kMostRanks);
      }
    } while (ranks() < least || ranks() > kMostRanks);
  }
  int ranks() const {
    const ParallelConfig& parallel = config_.parallel;
    return parallel.tp * parallel.cp * parallel.pp * parallel.dp;
  }

  void schedule() {
    ParallelConfig& parallel = config_.parallel;
    parallel.schedule = any_name<ScheduleKind>();
    if (parallel.schedule == ScheduleKind::Interleaved) parallel.chunks = below(4);
  }

  void model() {
    ModelConfig& model = config_.model;
    ParallelConfig& parallel = config_.parallel;
    model.family = any_of({ModelFamily::Gpt2, ModelFamily::Llama, ModelFamily::Moe});
    model.layers = parallel.pp * std::max(2, parallel.chunks) + below(2);
    model.heads = parallel.tp * (1 + below(2));
    if (is_one_of(2)) {  // every rank of tp and cp gets a head
      parallel.context = ContextExchange::AllToAll;
      model.heads *= parallel.cp;
    }
    model.kv_heads = is_one_of(2) ? 0 : parallel.tp;
    model.d_model = model.heads * 4;
    model.d_ff = parallel.tp * 8;
    model.vocab_size = 19 + below(3);
    model.seq_len = parallel.cp * any_of({2, 4, 8});  // two chunks per rank
    model.dropout = is_one_of(3) ? 0.1 : 0.0;
    model.tied_head = is_one_of(2);
    model.init_stddev = 0.2;
    if (model.family == ModelFamily::Moe) experts();
  }

  void experts() {
    ModelConfig& model = config_.model;
    ParallelConfig& parallel = config_.parallel;
    if (is_one_of(2)) parallel.ep = divisor_of(parallel.dp * parallel.cp);
    model.experts = parallel.ep * (1 + below(3));
    model.top_k = 1 + below(int(std::min<int64_t>(model.experts, 3)));
    model.shared_experts = below(2);
    model.z_loss = is_one_of(2) ? 0.001 : 0.0;
    model.balance_rate = is_one_of(2) ? 0.01 : 0.0;
    model.capacity_factor = is_one_of(3) ? 1.0 : 0.0;
  }

  // Most modes need a power of two; a schedule of two directions needs many micro-batches.
  void batch() {
    const ParallelConfig& parallel = config_.parallel;
    BatchConfig& batch = config_.batch;
    batch.micro_sequences = 1 + below(2);
    int64_t microbatches = is_one_of(6) ? 1 + below(7) : any_of({1, 2, 4, 8});
    if (parallel.schedule == ScheduleKind::Dualpipe ||
        parallel.schedule == ScheduleKind::DualpipeV) {
      microbatches = std::max<int64_t>(microbatches, std::bit_ceil(2u * unsigned(parallel.pp)));
    }
    batch.global_sequences = batch.micro_sequences * microbatches * parallel.dp;
  }

  void data_parallelism() {
    ParallelConfig& parallel = config_.parallel;
    parallel.zero = is_one_of(3) ? 0 : 1 + below(3);
    if (is_one_of(3)) parallel.hsdp_shard = divisor_of(parallel.dp);
    if (is_one_of(8)) {
      parallel.sync = GradSync::ParameterServer;
      parallel.servers = 1 + below(parallel.dp);
    }
    parallel.bucket_bytes = any_of({0, 0, 5000});
    parallel.prefetch = below(4);
  }

  void rest() {
    ParallelConfig& parallel = config_.parallel;
    parallel.sequence = parallel.tp > 1 && is_one_of(2);
    parallel.tp_overlap = parallel.tp > 1 && is_one_of(2);
    config_.optim.name = is_one_of(3) ? OptimizerKind::Sgd : OptimizerKind::AdamW;
    config_.optim.momentum = is_one_of(3) ? 0.0 : 0.9;
    config_.optim.clip_norm = any_of({0.0, 0.5, 1e6});
    config_.optim.post_validate = is_one_of(5);
    config_.memory.recompute = any_name<Recompute>();
    config_.memory.offload = any_of(
        {OffloadChoice::None, OffloadChoice::None, OffloadChoice::Optimizer, OffloadChoice::All});
    config_.memory.offload_buffer_bytes = 4096;  // small, so that there are many pieces
    config_.precision.compute = any_of(
        {ComputeChoice::Fp32, ComputeChoice::Fp32, ComputeChoice::Bf16, ComputeChoice::Fp16});
    config_.run.reproducible = is_one_of(3) ? Reproducible::Mesh : Reproducible::Layout;
    config_.run.threads_per_rank = 1 + below(2);
  }

  std::mt19937_64 random_;
  RunConfig config_;
};

bool meets_in_experts(const RunConfig& config) { return config.parallel.ep > config.parallel.cp; }

// Gives memory.recompute = "fit" a limit in the middle between what "none" and "full" need, so that
// some values are computed again.
RunConfig limited(RunConfig config, const RunPlan& plan) {
  if (config.memory.recompute != Recompute::Fit) return config;
  RunConfig full = config;
  full.memory.recompute = Recompute::Full;
  const int64_t least = make_plan(full, {}).value().largest().memory.arena_bytes;
  const int64_t most = plan.largest().memory.arena_bytes;
  RunConfig within = config;
  within.memory.limit_bytes = (least + most) / 2;
  return least < most && make_plan(within, {}).ok() ? within : config;
}

}  // namespace

RunConfig random_layout(uint64_t seed) {
  constexpr int kMostDraws = 1000;
  Draw draw(seed);
  for (int i = 0; i < kMostDraws; ++i) {
    const RunConfig config = draw.config();
    if (!validate(config).empty()) continue;
    try {
      const Result<RunPlan> plan = make_plan(config, {});
      if (plan.ok()) return limited(config, *plan);
      const ErrorKind kind = plan.error().kind;
      TRIREME_CHECK(kind == ErrorKind::Usage || kind == ErrorKind::Infeasible,
                    plan.error().message);
    } catch (const ContractError& error) {
      throw ContractError(fmt::format("{}: {}", command_of(config), error.what()));
    }
  }
  throw ContractError(fmt::format("seed {}: {} layouts in a row are refused", seed, kMostDraws));
}

std::string command_of(const RunConfig& config) {
  std::string command = "trireme train configs/tiny-gpt2.toml --out /tmp/layout";
  const RunConfig base = tiny_gpt2();
  const std::vector<ConfigField> usual = config_fields(base);
  const std::vector<ConfigField> fields = config_fields(config);
  for (size_t i = 0; i < fields.size(); ++i) {
    const std::string value = toml_text(fields[i]);
    if (value == toml_text(usual[i])) continue;
    command += fmt::format(" --set '{}={}'", fields[i].key(), value);
  }
  return command;
}

RunConfig on_one_rank(const RunConfig& config) {
  const ParallelConfig one;
  RunConfig result = config;
  result.parallel = one;
  result.optim.post_validate = false;
  result.memory.recompute = Recompute::None;
  result.memory.limit_bytes = 0;
  result.memory.offload = OffloadChoice::None;
  result.run.threads_per_rank = 1;
  return result;
}

RunConfig bitwise_reference(const RunConfig& config) {
  RunConfig result = on_one_rank(config);
  const ParallelConfig& from = config.parallel;
  ParallelConfig& parallel = result.parallel;
  parallel.cp = from.cp;
  parallel.context = from.context;
  parallel.ep = from.ep;
  if (config.run.reproducible != Reproducible::Mesh) {  // sums follow tp
    parallel.tp = from.tp;
    parallel.sequence = from.sequence;
    parallel.tp_overlap = from.tp_overlap;
  }
  if (meets_in_experts(config)) {  // the micro-batches that are computed together matter
    parallel.dp = from.dp;
    parallel.zero = from.zero >= 2 ? 2 : 0;
  }
  return result;
}

bool has_bitwise_reference(const RunConfig& config) {
  return !meets_in_experts(config) || config.parallel.schedule != ScheduleKind::Dualpipe;
}

}  // namespace trireme
