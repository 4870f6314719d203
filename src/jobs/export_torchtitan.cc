#include <fmt/format.h>

#include <algorithm>

#include "jobs/export_forms.h"
#include "jobs/torchtitan_words.h"
#include "schema/schedule_shape.h"

namespace trireme {
namespace {

// The file of v0.2.2, or the module of later versions.
bool is_toml(const ExportRequest& request) { return ending_of(request.path) == ".toml"; }

void check_model(JobWriter& job) {
  const ModelConfig& model = job.config().model;
  const ParallelConfig& parallel = job.config().parallel;
  job.require(!job.has_experts() || is_toml(job.request()), "model.family",
              "the module that we write has a dense model",
              "write FILE.toml of v0.2.2, which names a model of your own");
  job.require(model.family != ModelFamily::Gpt2 || !model.bias, "model.family",
              "its model is a llama", "use \"llama\"");
  job.require(!model.tied_head || parallel.pp == 1, "model.tied_head",
              "its pipeline keeps embedding and head apart", "set model.tied_head = false");
  job.require(model.kv_heads % parallel.tp == 0, "parallel.tp",
              fmt::format("it must divide model.kv_heads = {} there", model.kv_heads),
              "take a divisor");
}

void write_torchtitan_batch(JobWriter& job) {
  const RunConfig& config = job.config();
  const ParallelConfig& parallel = config.parallel;
  const int64_t seq_len = config.model.seq_len, micro = config.batch.micro_sequences;
  const int64_t m = job.num_microbatches();
  const int64_t parts =
      (parallel.sequence ? parallel.tp : 1) * (parallel.cp > 1 ? int64_t{2} * parallel.cp : 1);
  job.require(
      micro * seq_len % parts == 0, "batch.micro_sequences",
      fmt::format("its tokens must be a multiple of {}, tp and two chunks of each cp rank", parts),
      "take a larger micro-batch");
  const bool has_pipeline = parallel.pp > 1;
  if (is_toml(job.request())) {
    job.set("training.seq_len", seq_len);
    job.set("training.local_batch_size", has_pipeline ? micro * m : micro);
    job.set("training.global_batch_size", config.batch.global_sequences);
  } else {
    job.set("training.max_context_length", seq_len);
    job.set("training.num_tokens_per_microbatch_per_dp_rank", micro * seq_len);
    job.set("training.num_tokens_per_train_step", config.batch.global_sequences * seq_len);
    if (has_pipeline) job.set("training.disable_cuda_graphs", true);
  }
  job.set("training.steps", config.run.steps);
  job.rows("optim.");
}

void write_torchtitan_precision(JobWriter& job) {
  const RunConfig& config = job.config();
  job.require(config.precision.compute != ComputeChoice::Fp16, "precision.compute",
              "it has bfloat16 and float32", "use \"bf16\"");
  const bool is_bf16 = config.precision.compute == ComputeChoice::Bf16;
  job.set("training.mixed_precision_param", std::string(is_bf16 ? "bfloat16" : "float32"));
  job.require(config.memory.offload != OffloadChoice::Optimizer, "memory.offload",
              "it offloads parameters together with the optimizer", "use \"all\" or \"none\"");
  job.set("training.enable_cpu_offload", config.memory.offload == OffloadChoice::All);
}

void write_data_parallel(JobWriter& job) {
  const ParallelConfig& parallel = job.config().parallel;
  job.require(parallel.zero != 1, "parallel.zero",
              "it shards gradients and the optimizer's state together", "use 0, 2 or 3");
  const int64_t shard = parallel.zero == 0         ? 1
                        : parallel.hsdp_shard == 0 ? parallel.dp
                                                   : parallel.hsdp_shard;
  job.set("parallelism.data_parallel_replicate_degree", parallel.dp / shard);
  job.set("parallelism.data_parallel_shard_degree", shard);
  job.set("parallelism.fsdp_reshard_after_forward",
          std::string(parallel.zero == 2 ? "never" : "always"));
  if (parallel.pp > 1 && parallel.zero > 1) {
    job.note(
        "with pp, torchtitan reduces gradients after the last micro-batch: they take the "
        "memory of ZeRO-1 there");
  }
  job.require(shard * parallel.cp % parallel.ep == 0, "parallel.ep",
              "its experts lie within the ranks of a shard group",
              "set parallel.zero = 2 or 3, or take a smaller parallel.ep");
  job.require(parallel.ep == 1 || parallel.tp == 1, "parallel.ep",
              "its experts on several ranks are not split by tp", "set parallel.tp = 1");
}

// The modules of each stage. The head is called output in v0.2.2.
NameLists modules_of(const std::vector<int64_t>& stage_layers, const std::string& head) {
  NameLists stages;
  int64_t layer = 0;
  for (const int64_t num_layers : stage_layers) {
    std::vector<std::string>& names = stages.emplace_back();
    if (stages.size() == 1) names.push_back("tok_embeddings");
    for (int64_t i = 0; i < num_layers; ++i) names.push_back(fmt::format("layers.{}", layer++));
  }
  stages.back().push_back("norm");
  stages.back().push_back(head);
  return stages;
}

// Stages by number as equal as they can be, the first ones one layer longer.
std::vector<int64_t> even_stages(int64_t layers, int64_t stages) {
  std::vector<int64_t> counts;
  for (int64_t i = 0; i < stages; ++i) counts.push_back(layers / stages + (i < layers % stages));
  return counts;
}

void write_torchtitan_pipeline(JobWriter& job) {
  const RunConfig& config = job.config();
  const ParallelConfig& parallel = config.parallel;
  const std::string_view name = torchtitan_schedule(parallel.schedule);
  const bool has_pipeline = parallel.pp > 1;
  job.require(!name.empty() && (has_pipeline || parallel.schedule == ScheduleKind::OneFOneB),
              "parallel.schedule",
              has_pipeline ? "it would need a file of actions" : "without pp it runs 1f1b",
              has_pipeline ? "use \"1f1b\", \"gpipe\", \"interleaved\", \"zb_v\" or \"dualpipev\""
                           : "use \"1f1b\"");
  job.require(parallel.schedule != ScheduleKind::Interleaved || parallel.chunks > 1,
              "parallel.chunks", "its Interleaved1F1B has several stages on a rank",
              "use parallel.schedule = \"1f1b\"");
  if (!has_pipeline || name.empty()) return;
  job.set("parallelism.pipeline_parallel_schedule", std::string(name));
  if (is_toml(job.request())) {
    job.set("parallelism.pipeline_parallel_microbatch_size", config.batch.micro_sequences);
  } else {
    job.set("parallelism.num_pp_microbatches", job.num_microbatches());
  }
  const std::vector<int64_t>& given = job.request().stage_layers;
  const int64_t stages = int64_t{parallel.pp} * parallel.chunks;
  job.set("parallelism.module_fqns_per_model_part",
          modules_of(given.empty() ? even_stages(config.model.layers, stages) : given,
                     is_toml(job.request()) ? "output" : "lm_head"));
}

void write_torchtitan_context(JobWriter& job) {
  const ParallelConfig& parallel = job.config().parallel;
  job.require(parallel.context == ContextExchange::Ring, "parallel.context",
              "it exchanges keys and values, not heads", "use \"ring\"");
  if (is_toml(job.request())) {
    job.set("parallelism.context_parallel_rotate_method", std::string("alltoall"));
    job.require(parallel.sequence || parallel.tp == 1, "parallel.sequence",
                "v0.2.2 always splits the sequence over tp",
                "set parallel.sequence = true, or write FILE.py");
  } else {
    job.set("parallelism.enable_sequence_parallel", parallel.sequence);
    if (parallel.cp > 1) {
      job.note(
          "torchtitan gathers all keys and values of a layer instead of passing them around "
          "a ring: it needs more memory");
    }
  }
  if (!has_pp_outermost(parallel)) {
    job.note(
        "torchtitan places pp outermost, outside dp: its neighbours in the pipeline may lie "
        "on other nodes than here");
  }
}

// Returns the name of the released llama 3 that the model is, or "". The sequence length is no part
// of it.
std::string_view flavor_of(const ModelConfig& model) {
  const auto text_of = [](RunConfig config) {
    std::string text;
    for (const ConfigField& field : config_fields(config)) {
      if (field.section == "model") text += toml_text(field) + "\n";
    }
    return text;
  };
  RunConfig ours;
  ours.model = model;
  for (const TorchtitanFlavor& flavor : kTorchtitanFlavors) {
    RunConfig released;
    released.model = {.family = ModelFamily::Llama,
                      .layers = flavor.layers,
                      .d_model = flavor.d_model,
                      .heads = flavor.heads,
                      .kv_heads = 8,
                      .d_ff = flavor.d_ff,
                      .vocab_size = 128256,
                      .seq_len = model.seq_len,
                      .tied_head = false,
                      .norm_eps = 1e-5,
                      .rope_theta = 5e5};
    if (text_of(spelled_out(released)) == text_of(ours)) return flavor.name;
  }
  return "";
}

// Sizes are in its code, never in its TOML.
std::string sizes_comment(const ModelConfig& model) {
  std::string text = fmt::format(
      "# Register a flavor of this model under the name below: dim={}, n_layers={}, n_heads={},\n"
      "# n_kv_heads={}, head_dim={}, hidden_dim={}, vocab_size={}, norm_eps={}, rope_theta={}",
      model.d_model, model.layers, model.heads, model.kv_heads, model.head_dim, model.d_ff,
      model.vocab_size, model.norm_eps, model.rope_theta);
  if (model.family == ModelFamily::Moe) {
    text += fmt::format(",\n# num_experts={}, top_k={}, num_shared_experts={}, score_func={}",
                        model.experts, model.top_k, model.shared_experts, name_of(model.router));
    if (model.dense_layers > 0) {
      text += fmt::format(",\n# n_dense_layers={}, inter_dim={}, moe_inter_dim={}",
                          model.dense_layers, model.dense_d_ff, model.d_ff);
    }
  }
  return text + "\n";
}

std::string toml_file(JobWriter& job) {
  const RunConfig& config = job.config();
  ForeignJob file;
  file.set("model.name", std::string(job.has_experts() ? "deepseek_v3" : "llama3"));
  const std::string_view flavor = flavor_of(config.model);
  file.set("model.flavor", std::string(flavor.empty() ? "trireme" : flavor));
  for (const char* section : {"training.", "parallelism."}) {
    for (const ForeignSetting& setting : job.job().settings()) {
      if (setting.key.starts_with(section)) file.set(setting.key, setting.value);
    }
  }
  file.set("activation_checkpoint.mode", std::string(name_of(config.memory.recompute)));
  if (config.memory.recompute == Recompute::Selective) {
    file.set("activation_checkpoint.selective_ac_option", std::string("op"));
  }
  file.set("optimizer.name", std::string("AdamW"));
  file.set("optimizer.lr", config.optim.lr);
  return "# Layout of `trireme plan` for torchtitan v0.2.2.\n" +
         (flavor.empty() ? sizes_comment(config.model) : "") + toml_text(file);
}

}  // namespace

Result<ExportedJob> export_torchtitan(const ExportRequest& request) {
  if (const std::string ending = ending_of(request.path);
      !ending.empty() && ending != ".py" && ending != ".toml") {
    return usage(
        fmt::format("{}: torchtitan reads a module, FILE.py, or until v0.2.2 a FILE.toml; "
                    "choose one of these endings",
                    request.path));
  }
  JobWriter job(request, torchtitan_keys());
  check_model(job);
  job.rows("model.");
  write_torchtitan_batch(job);
  write_torchtitan_precision(job);
  write_data_parallel(job);
  job.rows("parallel.");
  write_torchtitan_context(job);
  write_torchtitan_pipeline(job);
  TRIREME_TRY_DONE(job.status());
  const std::string text = is_toml(request) ? toml_file(job) : torchtitan_module(job);
  return ExportedJob{{{request.path, text}}, std::move(job.notes())};
}

}  // namespace trireme
