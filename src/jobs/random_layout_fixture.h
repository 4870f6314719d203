#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "config/config_load.h"
#include "jobs/export_job.h"
#include "jobs/import_job.h"
#include "jobs/key_pair.h"
#include "schema/run_config_fields.h"
#include "schema/run_config_text.h"
#include "schema/run_config_validate.h"
#include "schema/stage_counts.h"

namespace trireme {

// Draws configurations that keep all rules. The same seed draws the same ones.
class RandomLayouts {
 public:
  explicit RandomLayouts(uint32_t seed) : random_(seed) {}

  RunConfig next() {
    for (;;) {
      const RunConfig config = draw();
      if (validate(config).empty()) return config;
    }
  }

 private:
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[random_() % values.size()];
  }
  template <Choice E>
  E any() {
    return static_cast<E>(random_() % choice_names<E>().size());
  }
  bool coin() { return random_() % 2 == 0; }

  void draw_model(ModelConfig& model) {
    model.family = one_of({ModelFamily::Gpt2, ModelFamily::Llama, ModelFamily::Moe});
    model.layers = one_of<int64_t>({8, 12, 16, 24});
    model.d_model = one_of<int64_t>({128, 256});
    model.heads = one_of<int64_t>({4, 8});
    model.kv_heads = one_of<int64_t>({0, 2, 4});
    model.head_dim = one_of<int64_t>({0, 0, 32});
    model.d_ff = one_of<int64_t>({0, 256, 512});
    model.vocab_size = one_of<int64_t>({257, 1000, 50257});
    model.seq_len = one_of<int64_t>({64, 128});
    model.tied_head = coin();
    model.norm_eps = one_of({1e-5, 1e-6});
    model.dropout = one_of({0.0, 0.0, 0.1});
    model.rope_theta = one_of({10000.0, 500000.0});
    model.rope_scaling_factor = one_of({1.0, 1.0, 8.0});
    if (model.family == ModelFamily::Gpt2) {
      model.activation = any<ActivationChoice>();
      model.norm = any<NormChoice>();
      model.positions = any<PositionsChoice>();
      model.bias = coin();
    }
    model.experts = one_of<int64_t>({4, 8});
    model.top_k = one_of<int64_t>({1, 2});
    model.shared_experts = one_of<int64_t>({0, 0, 1, 2});
    model.dense_layers = one_of<int64_t>({0, 0, 0, 0, 1, 3});
    if (model.dense_layers > 0) model.dense_d_ff = one_of<int64_t>({0, 384, model.d_ff});
    model.router = any<RouterType>();
    model.expert_groups = one_of<int64_t>({1, 1, 2});
    model.top_groups = one_of<int64_t>({1, 2});
    model.capacity_factor = one_of({0.0, 0.0, 1.25});
    model.aux_loss = one_of({0.0, 0.01});
    model.z_loss = one_of({0.0, 0.0, 0.001});
    model.balance_rate = one_of({0.0, 0.0, 0.001});
    if (random_() % 8 == 0) draw_rare_parts(model);
  }

  // Parts that few trainers have.
  void draw_rare_parts(ModelConfig& model) {
    model.routed_scaling = one_of({1.0, 2.5});
    model.mtp_depth = one_of<int64_t>({0, 1});
    model.mtp_loss_weight = one_of({0.1, 0.3});
    model.window = one_of<int64_t>({0, 32});
    model.qk_norm = coin();
    if (model.family == ModelFamily::Gpt2 || model.qk_norm) return;
    model.kv_heads = 0;
    model.head_dim = 32;
    model.kv_lora_rank = one_of<int64_t>({16, 48});
    model.q_lora_rank = one_of<int64_t>({0, 24});
    model.qk_rope_head_dim = one_of<int64_t>({8, 16});
    model.v_head_dim = one_of<int64_t>({0, 16});
    model.rope_scaling = any<RopeScaling>();
    if (model.rope_scaling != RopeScaling::Yarn) return;
    model.rope_high_freq_factor = 32.0;
    model.rope_original_seq_len = 4096;
    model.rope_mscale = one_of({1.0, 0.707});
  }

  void draw_parallel(ParallelConfig& parallel, bool has_experts) {
    parallel.dp = one_of({1, 2, 4, 8});
    parallel.tp = one_of({1, 1, 2, 4});
    parallel.pp = one_of({1, 1, 2, 4});
    parallel.cp = one_of({1, 1, 1, 2, 4});
    parallel.ep = has_experts ? one_of({1, 2, 4}) : 1;
    parallel.schedule = any<ScheduleKind>();
    if (coin()) parallel.schedule = ScheduleKind::OneFOneB;
    if (parallel.schedule == ScheduleKind::Interleaved) parallel.chunks = one_of({0, 2, 3});
    parallel.zero = one_of({0, 1, 2, 3});
    parallel.hsdp_shard = one_of({0, 0, 0, 1, 2, 4});
    parallel.sequence = coin();
    parallel.context = any<ContextExchange>();
  }

  RunConfig draw() {
    RunConfig config;
    draw_model(config.model);
    config.data.source = DataSource::Synthetic;
    draw_parallel(config.parallel, config.model.family == ModelFamily::Moe);
    config.batch.micro_sequences = one_of<int64_t>({1, 2});
    config.batch.global_sequences = one_of<int64_t>({0, 16, 32, 64});
    config.memory.recompute = any<Recompute>();
    config.memory.offload = one_of({OffloadChoice::None, any<OffloadChoice>()});
    config.precision.compute = any<ComputeChoice>();
    config.optim.name = one_of({OptimizerKind::AdamW, any<OptimizerKind>()});
    config.optim.lr = one_of({6e-4, 3e-3});
    config.optim.beta2 = one_of({0.95, 0.999});
    config.optim.schedule = any<LrScheduleKind>();
    config.optim.decay_steps = one_of<int64_t>({0, 10});
    config.optim.warmup_steps = one_of<int64_t>({0, 7});
    config.optim.clip_norm = one_of({1.0, 0.5});
    return config;
  }

  std::mt19937 random_;
};

// The configuration that the job gives when it lies over `base`.
inline Result<RunConfig> configuration_of(const ImportedJob& job, const std::string& base = "") {
  ConfigRequest request;
  if (!base.empty()) {
    TRIREME_TRY(below, parse_config_text(base, "base.toml"));
    request.imported = below;
  }
  request.imported.insert(request.imported.end(), job.assignments.begin(), job.assignments.end());
  request.imported_from = job.source;
  TRIREME_TRY(loaded, load_config(request));
  return loaded.config;
}

// Returns lines "parallel.tp: 2 became 4" for the keys that a trainer's table carries.
inline std::string differences(const RunConfig& before, const RunConfig& after, KeyTable table) {
  const auto comparable = [](const RunConfig& config) {
    RunConfig spelled = spelled_out(config);
    // A gpt2 without biases and a llama of the same parts are the same model.
    if (spelled.model.family == ModelFamily::Gpt2 && !spelled.model.bias) {
      spelled.model.family = ModelFamily::Llama;
    }
    // What a trainer cuts itself, into stages as equal as they can be, is nobody's wish.
    const std::vector<int> layers = parse_stage_counts(spelled.parallel.stage_layers).value();
    const bool is_falling = std::is_sorted(layers.rbegin(), layers.rend());
    if (layers.empty() || (is_falling && layers.front() - layers.back() <= 1)) {
      spelled.parallel.stage_layers.clear();
    }
    return spelled;
  };
  const RunConfig a = comparable(before), b = comparable(after);
  const std::vector<ConfigField> fields_a = config_fields(a), fields_b = config_fields(b);
  std::string text;
  for (const KeyPair& pair : table) {
    if (pair.say == Say::Tuning) continue;
    for (size_t i = 0; i < fields_a.size(); ++i) {
      if (fields_a[i].key() != pair.ours || toml_text(fields_a[i]) == toml_text(fields_b[i])) {
        continue;
      }
      text += std::string(pair.ours) + ": " + toml_text(fields_a[i]) + " became " +
              toml_text(fields_b[i]) + "\n";
    }
  }
  return text;
}

}  // namespace trireme
