#include "random_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <limits>
#include <vector>

#include "schema/run_config_fields.h"

namespace trireme {
namespace {

// A field with another value: near the present one, at a border, or beyond it.
class OtherValue {
 public:
  explicit OtherValue(std::mt19937_64& random) : random_(random) {}

  void operator()(bool* value) const { *value = !*value; }
  void operator()(int* value) const { *value = int(other(*value)); }
  void operator()(int64_t* value) const { *value = other(*value); }
  void operator()(uint64_t* value) const { *value = random_() >> 1; }
  void operator()(double* value) const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double values[] = {
        0.0,        1.0,        -1.0, 0.5,       2.0,
        *value * 2, *value / 2, 1e30, kInfinity, std::numeric_limits<double>::quiet_NaN()};
    *value = values[random_() % std::size(values)];
  }
  void operator()(std::string* value) const {
    const char* const values[] = {"", "0", "0,3", "a b", "1,"};
    *value = values[random_() % std::size(values)];
  }
  void operator()(ChoiceField choice) const {
    *choice.value = static_cast<unsigned char>(random_() % choice.names.size());
  }
  void operator()(MixtureField train) const {
    *train.mixture = random_() % 2 == 0 ? std::vector<WeightedFile>()
                                        : std::vector<WeightedFile>{{"a.tok", 2.0}, {"b.tok", 1.0}};
  }
  // Patterns are names of layers, which differ from model to model.
  void operator()(LayersField layers) const { layers.rules->clear(); }
  void operator()(StepsField steps) const {
    *steps.value = random_() % 8 == 0 ? kAutoSteps : other(*steps.value);
  }

 private:
  // Few values are large, and they are far beyond every size: a plan is to be small or none.
  int64_t other(int64_t value) const {
    const int64_t values[] = {0,
                              1,
                              2,
                              3,
                              4,
                              5,
                              6,
                              8,
                              12,
                              value + 1,
                              value - 1,
                              2 * value,
                              value / 2,
                              -1,
                              -value,
                              std::numeric_limits<int>::max(),
                              std::numeric_limits<int>::min()};
    return values[random_() % std::size(values)];
  }

  std::mt19937_64& random_;
};

class RunDraw {
 public:
  RunDraw(std::mt19937_64& random, const RunConfig& base, DrawnFor use)
      : random_(random), config_(base), is_trained_(use == DrawnFor::Training) {}

  RunConfig run() {
    degrees();
    schedule();
    model();
    batch();
    storage();
    rest();
    config_.parallel.order = any_of<const char*>(
        {"tp,cp,pp,dp", "tp,cp,pp,dp", "tp,cp,dp,pp", "pp,dp,cp,tp", "dp,tp,pp,cp"});
    if (is_trained_) {
      places();
      return config_;
    }
    const int num_changes = std::max(0, below(6) - 2);
    for (int i = 0; i < num_changes; ++i) change_a_field();
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
  E any_choice() {
    return E(below(int(choice_names<E>().size())));
  }
  int divisor_of(int number) {
    int divisor = 1 + below(number);
    while (number % divisor != 0) --divisor;
    return divisor;
  }
  int ranks() const {
    const ParallelConfig& parallel = config_.parallel;
    return parallel.tp * parallel.cp * parallel.pp * parallel.dp;
  }

  // Half of the trained layouts have five or six ranks.
  void degrees() {
    ParallelConfig& parallel = config_.parallel;
    const int least = !is_trained_ ? 1 : is_one_of(2) ? 2 : 5, most = is_trained_ ? 6 : 16;
    do {
      for (int* degree : {&parallel.tp, &parallel.cp, &parallel.pp, &parallel.dp}) {
        *degree = is_one_of(2) ? 1 : 1 + below(is_one_of(4) ? most : 4);
      }
    } while (ranks() < least || ranks() > most);
    if (!is_trained_ && is_one_of(12)) {  // workers that do not wait
      parallel.tp = parallel.cp = parallel.pp = 1;
      parallel.staleness = 1 + below(3);
      parallel.sync = GradSync::ParameterServer;
    }
  }

  void schedule() {
    ParallelConfig& parallel = config_.parallel;
    parallel.schedule = any_choice<ScheduleKind>();
    // A search of schedules takes a hundred times as long as a plan.
    if (parallel.schedule == ScheduleKind::Auto && !is_one_of(8)) {
      parallel.schedule = ScheduleKind::OneFOneB;
    }
    const bool takes_chunks = parallel.schedule == ScheduleKind::Interleaved;
    if (is_one_of(takes_chunks ? 2 : 4)) parallel.chunks = 1 + below(3);
  }

  void model() {
    ModelConfig& model = config_.model;
    ParallelConfig& parallel = config_.parallel;
    model.family = any_of({ModelFamily::Gpt2, ModelFamily::Llama, ModelFamily::Moe});
    model.layers = parallel.pp * (1 + below(3)) + below(2);
    model.heads = parallel.tp * (1 + below(2));
    if (is_one_of(3)) {
      parallel.context = ContextExchange::AllToAll;
      if (!is_one_of(3)) model.heads *= parallel.cp;
    }
    if (is_one_of(2)) model.kv_heads = divisor_of(int(model.heads));
    model.d_model = model.heads * (is_trained_ ? 4 : any_of({2, 4}));
    if (is_one_of(3)) model.head_dim = any_of({2, 4, 6});
    if (is_one_of(2)) model.d_ff = parallel.tp * 4 + below(4);
    model.vocab_size = is_one_of(8) ? 0 : 17 + below(8);
    model.seq_len = parallel.cp * any_of({2, 4, 8});
    model.activation = any_of({ActivationChoice::Default, any_choice<ActivationChoice>()});
    model.norm = any_choice<NormChoice>();
    model.positions = any_choice<PositionsChoice>();
    for (bool* flag : {&model.bias, &model.norm_gain, &model.embedding_norm, &model.parallel_block,
                       &model.final_norm, &model.tied_head, &model.init_scale_residual}) {
      *flag = is_one_of(2);
    }
    model.layer_scale = any_of({0.0, 0.0, 0.5});
    model.dropout = any_of({0.0, 0.0, 0.1});
    model.rope_scaling_factor = any_of({1.0, 1.0, 8.0});
    if (model.family == ModelFamily::Moe) experts();
    if (is_one_of(5)) attention();
    if (is_one_of(6)) adapters();
    const bool has_module = model.layer_scale > 0.0 && model.tied_head != model.final_norm;
    if (has_module && model.lora_rank == 0) model.mtp_depth = 1;
  }

  // Norms of heads, windows and latents.
  void attention() {
    ModelConfig& model = config_.model;
    if (is_one_of(2)) model.window = 1 + below(int(model.seq_len));
    model.qk_norm = model.norm == NormChoice::RmsNorm || is_one_of(8);
    if (model.qk_norm || model.family == ModelFamily::Gpt2 || is_one_of(2)) return;
    if (!is_one_of(8)) model.kv_heads = 0;
    if (!is_one_of(8)) model.positions = PositionsChoice::Rope;
    model.kv_lora_rank = 1 + below(8);
    model.q_lora_rank = is_one_of(8) ? 0 : 1 + below(7);
    model.qk_rope_head_dim = any_of({2, 4});
    model.v_head_dim = below(5);
    model.rope_scaling = any_choice<RopeScaling>();
  }

  // Ranks that every matrix of these small models has.
  void adapters() {
    ModelConfig& model = config_.model;
    model.lora_rank = 1 + below(2);
    model.lora_alpha = any_of({0.0, 1.0, 3.0});
    const bool has_experts = model.family == ModelFamily::Moe;
    if (model.kv_lora_rank > 0) {
      if (model.kv_lora_rank == 1 || model.q_lora_rank == 1) model.lora_rank = 1;
      model.lora_targets =
          has_experts ? any_of({"kv_a,kv_b,o", "kv_b"}) : any_of({"all", "kv_a,o", "kv_b,down"});
      return;
    }
    model.lora_targets =
        has_experts ? any_of({"q,k,v,o", "q, v"}) : any_of({"all", "q,v", "o,down", "k,up"});
  }

  void experts() {
    ModelConfig& model = config_.model;
    ParallelConfig& parallel = config_.parallel;
    if (is_one_of(4))
      model.activation = ActivationChoice::Swiglu;
    else if (!is_one_of(6))
      model.activation = ActivationChoice::Default;
    if (is_one_of(2)) parallel.ep = divisor_of(parallel.dp * parallel.cp);
    model.experts = parallel.ep * (1 + below(3));
    model.expert_groups = is_one_of(4) ? divisor_of(int(model.experts)) : 1;
    model.top_groups = 1 + below(int(model.expert_groups));
    model.top_k = 1 + below(int(model.experts / model.expert_groups * model.top_groups));
    model.shared_experts = below(3);
    model.dense_layers = below(int(model.layers));
    if (model.dense_layers > 0 && is_one_of(2)) model.dense_d_ff = parallel.tp + below(40);
    model.router = any_choice<RouterType>();
    model.capacity_factor = any_of({0.0, 1.0, 1.25});
    model.z_loss = model.router == RouterType::Softmax ? any_of({0.0, 0.001}) : 0.0;
    model.balance_rate = any_of({0.0, 0.01});
  }

  // Degrees of places of the pipeline, which divide those of the mesh.
  void places() {
    ParallelConfig& parallel = config_.parallel;
    if (parallel.pp == 1 || parallel.tp * parallel.dp == 1 || is_one_of(2)) return;
    std::vector<int> tp, dp;
    for (int place = 0; place < parallel.pp; ++place) {
      const bool is_mirror =
          parallel.schedule == ScheduleKind::Dualpipe && 2 * place >= parallel.pp && !is_one_of(8);
      const size_t mirror = size_t(parallel.pp - 1 - place);
      tp.push_back(is_mirror ? tp[mirror] : divisor_of(parallel.tp));
      dp.push_back(is_mirror ? dp[mirror] : divisor_of(parallel.dp));
    }
    const auto text = [](const std::vector<int>& counts) {
      return fmt::format("{}", fmt::join(counts, ","));
    };
    if (is_one_of(2)) parallel.stage_tp = text(tp);
    if (parallel.stage_tp.empty() || is_one_of(2)) parallel.stage_dp = text(dp);
    if (!is_one_of(8)) parallel.order = "tp,cp,dp,pp";
  }

  // A schedule of two directions needs many micro-batches.
  void batch() {
    const ParallelConfig& parallel = config_.parallel;
    BatchConfig& batch = config_.batch;
    batch.micro_sequences = 1 + below(3);
    int64_t microbatches = any_of({1, 2, 3, 4, 8, 2 * parallel.pp, 4 * parallel.pp});
    const bool has_directions =
        parallel.schedule == ScheduleKind::Dualpipe || parallel.schedule == ScheduleKind::DualpipeV;
    if (has_directions && !is_one_of(4)) {
      microbatches = std::max<int64_t>(microbatches, std::bit_ceil(2u * unsigned(parallel.pp)));
    }
    const int64_t sequences = batch.micro_sequences * microbatches * parallel.dp;
    batch.global_sequences = 0;
    switch (below(is_trained_ ? 2 : 3)) {
      case 0:
        batch.global_tokens = sequences * config_.model.seq_len;
        break;
      case 1:
        batch.global_sequences = sequences;
        break;
      default:
        if (is_one_of(2)) batch.global_sequences = sequences;
    }
  }

  void storage() {
    ParallelConfig& parallel = config_.parallel;
    if (parallel.staleness == 0) {
      parallel.zero = below(4);
      if (is_one_of(3)) parallel.hsdp_shard = divisor_of(parallel.dp);
      if (is_one_of(6)) {
        parallel.sync = GradSync::ParameterServer;
        parallel.servers = 1 + below(parallel.dp);
        if (!is_one_of(3)) parallel.hsdp_shard = 0;
      }
    }
    parallel.bucket_bytes = any_of({0, 100, 5000});
    parallel.prefetch = below(4);
    parallel.sequence = is_one_of(2);
    parallel.tp_overlap = is_one_of(2);
    parallel.pair = !is_one_of(4);
    MemoryConfig& memory = config_.memory;
    memory.recompute = any_choice<Recompute>();
    if (is_one_of(3)) memory.offload = any_choice<OffloadChoice>();
    memory.offload_buffer_bytes = any_of({4096, 1 << 16});
    if (is_one_of(10)) memory.limit_bytes = 1 << (14 + below(14));
  }

  void rest() {
    const bool has_files = !is_trained_ && is_one_of(4);
    config_.data.source = has_files ? DataSource::Files : DataSource::Synthetic;
    OptimConfig& optim = config_.optim;
    optim.name = any_choice<OptimizerKind>();
    optim.schedule = any_choice<LrScheduleKind>();
    if (optim.schedule == LrScheduleKind::Range) {
      optim.min_lr = 1e-3 * optim.lr;
      optim.warmup_steps = 0;
    }
    optim.momentum = any_of({0.0, 0.9});
    optim.clip_norm = any_of({0.0, 1.0, 1e6});
    optim.post_validate = is_one_of(4);
    const bool is_refused_with_muon = optim.post_validate || config_.parallel.staleness > 0 ||
                                      config_.memory.offload != OffloadChoice::None;
    if (optim.name == OptimizerKind::Muon && is_refused_with_muon && !is_one_of(20)) {
      optim.name = OptimizerKind::AdamW;
    }
    if (optim.name == OptimizerKind::Muon && is_one_of(2)) optim.qk_clip = 0.05;
    if (is_one_of(4)) {
      optim.grad_dtype = any_choice<StateChoice>();
      optim.moment_dtype = any_choice<StateChoice>();
      optim.master = is_one_of(2);
    }
    RunSection& run = config_.run;
    if (is_trained_) {
      // Only these sum in an order that no layout changes.
      run.reproducible = is_one_of(3) ? Reproducible::Mesh : Reproducible::Layout;
      run.threads_per_rank = 1 + below(2);
      config_.precision.compute = any_of(
          {ComputeChoice::Fp32, ComputeChoice::Fp32, ComputeChoice::Bf16, ComputeChoice::Fp16});
      return;
    }
    config_.precision.compute = any_choice<ComputeChoice>();
    run.reproducible = any_choice<Reproducible>();
    if (!is_one_of(3) && config_.parallel.sequence) {
      run.reproducible = any_of({Reproducible::Fixed, Reproducible::Layout});
    }
    run.threads_per_rank = below(3);
    run.backend = is_one_of(10) ? BackendChoice::Mpi : BackendChoice::Local;
    run.isa = any_choice<IsaChoice>();
  }

  // Names of files stay: a plan would read them.
  void change_a_field() {
    std::vector<ConfigField> fields = config_fields(config_);
    std::erase_if(fields, [](const ConfigField& field) {
      return field.section == "data" || field.key() == "model.preset" ||
             field.key() == "run.hardware";
    });
    const ConfigField& field = fields[size_t(below(int(fields.size())))];
    if (field.key() == "optim.frozen") {  // its patterns depend on the model
      config_.optim.frozen = any_of({"", "embedding.*"});
      return;
    }
    if (field.key() == "model.lora_targets") {  // a list of names
      config_.model.lora_targets = any_of({"all", "q,v"});
      return;
    }
    std::visit(OtherValue(random_), field.value);
  }

  std::mt19937_64& random_;
  RunConfig config_;
  bool is_trained_;
};

}  // namespace

RunConfig random_run(std::mt19937_64& random, const RunConfig& base, DrawnFor use) {
  return RunDraw(random, base, use).run();
}

std::string overrides_of(const RunConfig& config, const RunConfig& base) {
  RunConfig changed = config, unchanged = base;
  const std::vector<ConfigField> before = config_fields(unchanged), fields = config_fields(changed);
  std::string text;
  for (size_t i = 0; i < fields.size(); ++i) {
    const std::string value = toml_text(fields[i]);
    if (value == toml_text(before[i])) continue;
    text += fmt::format("{}--set '{}={}'", text.empty() ? "" : " ", fields[i].key(), value);
  }
  return text;
}

}  // namespace trireme
