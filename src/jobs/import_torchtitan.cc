#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "jobs/import_forms.h"
#include "jobs/job_reader.h"
#include "jobs/torchtitan_words.h"
#include "schema/schedule_shape.h"

namespace trireme {
namespace {

constexpr int64_t kTorchtitanMostOfAProduct = int64_t{1} << 31;

constexpr ForeignRefusal kTorchtitanRefusals[] = {
    {"parallelism.enable_*", "", ""},
    {"parallelism.disable_*", "", ""},
    {"parallelism.spmd_backend", "", ""},
    {"parallelism.context_parallel_load_balancer", "", ""},
    {"parallelism.expert_parallel_comm_backend", "", ""},
    {"parallelism.pipeline_parallel_expert_parallel_overlap", "", ""},
    {"parallelism.pipeline_parallel_*_stage_less_layers", "", ""},
    {"parallelism.pipeline_parallel_first_stage_less_layers", "", ""},
    {"parallelism.pipeline_parallel_last_stage_less_layers", "", ""},
    {"parallelism.pipeline_parallel_schedule_csv", "", ""},
    {"parallelism.expert_tensor_parallel_degree", "1", "experts are split like the other layers"},
    {"parallelism.context_parallel_ptrr_mask_key", "", ""},
    {"parallelism.*", "", "we have no such setting of the layout"},
    {"training.dtype", "float32", "the state of the optimizer is kept in fp32",
     "use training.dtype = \"float32\""},
    {"training.mixed_precision_reduce", "float32", "gradients are reduced in fp32",
     "use \"float32\""},
    {"quantize.*", "", "quantized products are not priced"},
    {"model.converters.#", "0", "converted layers are not priced"},
    {"model_spec.model.layers.*.attention.qk_norm.*", "",
     "norms of queries and keys are not "
     "supported"},
};

// Keys of b5bcd76c and v0.2.2 that change neither memory nor time of a step.
constexpr std::string_view kTorchtitanKnown =
    "training.dataset training.dataset_path training.gc_freq training.gc_debug "
    "training.disable_cuda_graphs training.dataloader.* training.deterministic training.seed "
    "activation_checkpoint.early_stop activation_checkpoint.memory_budget "
    "activation_checkpoint.visualize_memory_budget_pareto activation_checkpoint.preserve_rng_state "
    "activation_checkpoint.determinism_check activation_checkpoint.debug "
    "activation_checkpoint.force_recompute_mm_shapes_by_fqns* "
    "activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns* checkpoint.* comm.* "
    "compile.* dataloader.* debug.* dump_folder "
    "experimental.* fault_tolerance.* hf_assets_path job.* loss.* lr_scheduler.* "
    "memory_estimation.* metrics.* model.hf_assets_path model.tokenizer_path "
    "model.print_after_conversion model.converters* model_converters.* model_spec.* optimizer.* "
    "override.* profiler.* profiling.* tokenizer.* validation.* validator.*";

// A whole number above zero, so that products of two do not overflow.
int64_t torchtitan_count(JobReader& job, std::string_view key, int64_t otherwise) {
  const int64_t value = job.integer(key).value_or(otherwise);
  if (value >= 1 && value <= kTorchtitanMostOfAProduct) return value;
  job.wrong(key, fmt::format("must be from 1 to {}", kTorchtitanMostOfAProduct),
            "take another number");
  return 1;
}

struct Degrees {
  int64_t dp = 1;
  int64_t pp = 1;
};

// The ranks that the job itself names, before --set changes a degree; 0 if it does not say.
int64_t torchtitan_ranks(JobReader& job) {
  double ranks = 1.0;
  for (const char* degree :
       {"parallelism.data_parallel_replicate_degree", "parallelism.pipeline_parallel_degree",
        "parallelism.tensor_parallel_degree", "parallelism.context_parallel_degree"}) {
    ranks *= double(torchtitan_count(job, degree, 1));
  }
  ranks *= double(job.integer("parallelism.data_parallel_shard_degree").value_or(-1));
  return ranks >= 1.0 && ranks <= double(kTorchtitanMostOfAProduct) ? int64_t(ranks) : 0;
}

// Shares `ranks` out to the copies of the model: replicas of shards, as many of the one as the job
// has, unless it does not shard.
void share_out_ranks(JobReader& job, int64_t ranks, int64_t of_a_copy, int64_t& replicas,
                     int64_t& shard) {
  const std::string_view key = "parallelism.data_parallel_shard_degree";
  const int64_t copies = of_a_copy >= 1 && of_a_copy <= ranks ? ranks / of_a_copy : 0;
  if (copies == 0 || ranks % of_a_copy != 0) {
    return job.wrong(
        key,
        fmt::format("the other degrees of {} together must divide the {} ranks", of_a_copy, ranks),
        "change one of them, or --ranks");
  }
  if (shard == 1) {
    replicas = copies;
  } else if (copies % replicas == 0) {
    shard = copies / replicas;
  } else {
    job.wrong("parallelism.data_parallel_replicate_degree",
              fmt::format("must divide the {} copies of the model", copies), "change one of them");
  }
}

Degrees read_data_parallel(JobReader& job, int64_t written_ranks) {
  int64_t replicas = torchtitan_count(job, "parallelism.data_parallel_replicate_degree", 1);
  const int64_t pp = torchtitan_count(job, "parallelism.pipeline_parallel_degree", 1);
  const int64_t tp = torchtitan_count(job, "parallelism.tensor_parallel_degree", 1);
  const int64_t cp = torchtitan_count(job, "parallelism.context_parallel_degree", 1);
  const std::string_view key = "parallelism.data_parallel_shard_degree";
  int64_t shard = job.integer(key).value_or(-1);
  if (shard == -1) {
    const int64_t ranks = job.request().ranks.value_or(0);
    const double others = double(replicas) * double(pp) * double(tp) * double(cp);
    const bool fits = others <= 1e6 && ranks > 0 && ranks % int64_t(others) == 0;
    if (!fits) {
      job.wrong(key,
                ranks > 0 ? "is -1, the rest of the ranks, which the other degrees must divide"
                          : "is -1, the rest of the ranks, whose number is not in the job",
                ranks > 0 ? "change --ranks" : "give --ranks N");
    }
    shard = fits ? ranks / int64_t(others) : 1;
  } else if (shard < 1 || shard > kTorchtitanMostOfAProduct) {
    job.wrong(key, "must be -1 or at least 1", "use -1");
    shard = 1;
  }
  const ImportRequest& request = job.request();
  const int64_t ranks = request.ranks ? std::max(1, *request.ranks) : written_ranks;
  const double of_a_copy = double(pp) * double(tp) * double(cp);
  const bool is_known = ranks > 0 && job.integer(key).value_or(-1) > 0;
  if (is_known && !is_overridden(request, "parallel.dp")) {
    share_out_ranks(job, ranks, int64_t(std::min(of_a_copy, 1e12)), replicas, shard);
  }
  const std::string reshard =
      job.word("parallelism.fsdp_reshard_after_forward").value_or("default");
  constexpr std::array kPolicies = {"default", "always", "never"};
  if (std::find(kPolicies.begin(), kPolicies.end(), reshard) == kPolicies.end()) {
    job.wrong("parallelism.fsdp_reshard_after_forward", "is unknown",
              "use default, always or never");
  }
  const bool keeps = reshard == "never" || (reshard == "default" && pp > 1);
  const int64_t of_job = std::min(replicas * shard, kTorchtitanMostOfAProduct);
  const int64_t dp =
      is_overridden(request, "parallel.dp") ? std::max(1, request.base.parallel.dp) : of_job;
  job.assign("parallel.dp", dp, key);
  job.assign("parallel.zero",
             int64_t{shard == 1 ? 0
                     : keeps    ? 2
                                : 3},
             "parallelism.fsdp_reshard_after_forward");
  job.assign("parallel.hsdp_shard", shard > 1 && replicas > 1 ? shard : int64_t{0}, key);
  job.assign("parallel.order", std::string("tp,cp,dp,pp"));
  return {dp, pp};
}

// v0.2 counts sequences; later versions torchtitan_count tokens.
void read_torchtitan_batch(JobReader& job, const Degrees& degrees) {
  const std::string_view tokens_key = "training.num_tokens_per_microbatch_per_dp_rank";
  const bool counts_sequences = job.has("training.local_batch_size") || job.has("training.seq_len");
  const std::string_view seq_key =
      counts_sequences ? "training.seq_len" : "training.max_context_length";
  const int64_t seq_len = torchtitan_count(job, seq_key, 2048);
  job.assign("model.seq_len", seq_len, seq_key);
  int64_t micro = 1, of_pass = 1, global = -1;
  std::string_view global_key = "training.global_batch_size";
  if (counts_sequences) {
    const int64_t local = torchtitan_count(job, "training.local_batch_size", 8);
    const int64_t part = torchtitan_count(job, "parallelism.pipeline_parallel_microbatch_size", 1);
    micro = degrees.pp > 1 ? part : local;
    of_pass = local;
    global = job.integer(global_key).value_or(-1);
    job.assign("batch.micro_sequences", micro,
               degrees.pp > 1 ? "parallelism.pipeline_parallel_microbatch_size"
                              : "training.local_batch_size");
  } else {
    global_key = "training.num_tokens_per_train_step";
    const int64_t tokens = torchtitan_count(job, tokens_key, 16384);
    const int64_t passes = torchtitan_count(job, "parallelism.num_pp_microbatches", 1);
    const int64_t of_step = job.integer(global_key).value_or(-1);
    if (tokens % seq_len != 0 || (of_step > 0 && of_step % seq_len != 0)) {
      job.refuse(
          tokens % seq_len != 0 ? tokens_key : global_key,
          fmt::format("sequences have {} tokens each, and micro-batches whole sequences", seq_len),
          "take a multiple of training.max_context_length");
    }
    micro = std::max<int64_t>(1, tokens / seq_len);
    of_pass = micro * (degrees.pp > 1 ? std::min(passes, kTorchtitanMostOfAProduct / micro) : 1);
    global = of_step > 0 ? of_step / seq_len : -1;
    job.assign("batch.micro_sequences", micro, tokens_key);
  }
  const bool is_product_small = of_pass <= kTorchtitanMostOfAProduct / degrees.dp;
  const int64_t of_all = is_product_small ? of_pass * degrees.dp : kTorchtitanMostOfAProduct;
  if (global < 1) global = of_all;
  if (degrees.pp > 1 && global != of_all) {
    job.refuse(
        global_key,
        fmt::format("a step would run the pipeline several times, {} sequences each", of_all),
        "put all micro-batches of a step into one run of the pipeline");
  }
  job.assign("batch.global_sequences", global, global_key);
}

// The layers among the modules of each stage, such as {"tok_embeddings", "layers.0"}.
std::vector<int64_t> layers_of(const NameLists& stages) {
  std::vector<int64_t> layers;
  for (const std::vector<std::string>& names : stages) {
    layers.push_back(std::count_if(names.begin(), names.end(), [](const std::string& name) {
      return name.starts_with("layers.");
    }));
  }
  return layers;
}

void read_torchtitan_pipeline(JobReader& job, int64_t pp) {
  const std::string_view key = "parallelism.pipeline_parallel_schedule";
  const std::string name = job.word(key).value_or("1F1B");
  const auto kind = schedule_of_torchtitan(name);
  job.word("parallelism.pipeline_parallel_schedule_csv");
  const auto parts = job.lists("parallelism.module_fqns_per_model_part");
  const auto layers = job.integer("parallelism.pipeline_parallel_layers_per_stage");
  if (pp == 1) return;
  if (!kind || !job.word("parallelism.pipeline_parallel_schedule_csv").value_or("").empty()) {
    return job.refuse(key, "we have no such schedule",
                      "use 1F1B, GPipe, Interleaved1F1B, ZBVZeroBubble or DualPipeV");
  }
  int64_t chunks = default_chunks(*kind);
  if (parts && int64_t(parts->size()) % pp != 0) {
    job.wrong("parallelism.module_fqns_per_model_part", "its length must be a multiple of pp",
              "write as many lists as there are stages");
  } else if (parts) {
    chunks = int64_t(parts->size()) / pp;
    job.assign_stages(layers_of(*parts), "parallelism.module_fqns_per_model_part");
  } else if (layers) {
    job.refuse("parallelism.pipeline_parallel_layers_per_stage",
               "the number of stages is not in the job",
               "write parallelism.module_fqns_per_model_part");
  }
  job.assign("parallel.schedule", std::string(name_of(*kind)), key);
  job.assign("parallel.chunks", chunks, "parallelism.module_fqns_per_model_part");
}

void read_recompute(JobReader& job, bool is_json) {
  const std::string_view key = "activation_checkpoint.mode";
  std::string mode = job.word(key).value_or(is_json ? "none" : "selective");
  if (is_json && job.has("activation_checkpoint.preserve_rng_state")) {
    mode =
        job.has("activation_checkpoint.force_recompute_mm_shapes_by_fqns.#") ? "selective" : "full";
  }
  if (mode != "none" && mode != "selective" && mode != "full") {
    job.refuse(key, "we have none, selective and full recomputation", "use one of them");
  }
  const std::string option =
      job.word("activation_checkpoint.selective_ac_option").value_or(is_json ? "op" : "2");
  if (mode == "selective" && option != "op") {
    job.note("activation_checkpoint.selective_ac_option = " + option.substr(0, 20) +
             " recomputes some layers as a whole; it is priced as memory.recompute = "
             "\"selective\"");
  }
  job.assign("memory.recompute", mode, key);
}

// The released sizes of llama 3 are presets of ours.
void read_flavor(JobReader& job) {
  const std::string name = job.word("model.name").value_or("");
  const std::string flavor = job.word("model.flavor").value_or("");
  if (job.request().has_base) return;
  for (const TorchtitanFlavor& released : kTorchtitanFlavors) {
    if (name == "llama3" && flavor == released.name) {
      return job.assign("model.preset", std::string(released.preset), "model.flavor");
    }
  }
  job.wrong("model.flavor", "the sizes of this model are in torchtitan's code, not in the job",
            "name a RUN.toml with [model] before --from");
}

// The model as debug.save_config_file writes it.
void read_model(JobReader& job) {
  const std::string root = "model_spec.model.", layer = root + "layers.0.";
  if (job.has(layer + "moe.num_experts")) {
    if (!job.request().has_base) {
      job.refuse(layer + "moe.num_experts", "sizes of experts are not read",
                 "name a RUN.toml with [model] before --from");
    }
    return;
  }
  const auto read = [&](std::string_view ours, const std::string& theirs) {
    if (const auto value = job.integer(theirs)) job.assign(ours, *value, theirs);
  };
  job.assign("model.family", std::string("llama"), "model_spec.name");
  read("model.d_model", root + "dim");
  read("model.vocab_size", root + "vocab_size");
  read("model.layers", root + "layers.#");
  read("model.heads", layer + "attention.n_heads");
  job.assign("model.kv_heads", int64_t{0});
  read("model.kv_heads", layer + "attention.n_kv_heads");
  read("model.head_dim", layer + "attention.head_dim");
  read("model.d_ff", layer + "feed_forward.w1.out_features");
  job.assign("model.tied_head", job.flag(root + "enable_weight_tying"),
             root + "enable_weight_tying");
  for (const char* size : {"dim", "vocab_size", "layers.#"}) {
    if (!job.has(root + size)) job.wrong(root + size, "is missing", "name a RUN.toml with [model]");
  }
}

bool is_python(std::string_view text) {
  return text.starts_with("from ") || text.starts_with("import ") || text.starts_with("\"\"\"");
}

}  // namespace

Result<ImportedJob> import_torchtitan(const ImportRequest& request) {
  const size_t start = std::min(request.text.find_first_not_of(" \t\r\n"), request.text.size());
  const std::string_view text = request.text.substr(start);
  if (is_python(text)) {
    return usage(fmt::format(
        "{}:1: a Python module is not read; write the layout with -o FILE.toml instead, or start "
        "the job with --debug.save_config_file FILE, and read that TOML or JSON file",
        request.source));
  }
  const bool is_json = text.starts_with("{");
  TRIREME_TRY(settings, is_json ? read_json_job(request.text, request.source)
                                : read_toml_job(request.text, request.source));
  JobReader job(request, torchtitan_keys(), kTorchtitanKnown, std::move(settings));
  const int64_t written_ranks = torchtitan_ranks(job);
  job.replace_overridden();
  if (is_json && job.has("model_spec.model.dim")) {
    read_model(job);
  } else {
    read_flavor(job);
  }
  const Degrees degrees = read_data_parallel(job, written_ranks);
  read_torchtitan_batch(job, degrees);
  read_torchtitan_pipeline(job, degrees.pp);
  job.rows("parallel.");
  const bool is_new = job.has("training.max_context_length");
  const bool splits = !is_new || !job.has("parallelism.enable_sequence_parallel") ||
                      job.flag("parallelism.enable_sequence_parallel");
  job.assign("parallel.sequence",
             splits && job.integer("parallelism.tensor_parallel_degree").value_or(1) > 1,
             "parallelism.enable_sequence_parallel");
  if (job.word("parallelism.context_parallel_rotate_method").value_or("allgather") != "alltoall" &&
      job.integer("parallelism.context_parallel_degree").value_or(1) > 1) {
    job.note("keys and values are gathered there; a ring is priced, which needs less memory");
  }
  read_recompute(job, is_json);
  job.assign("memory.offload",
             std::string(job.flag("training.enable_cpu_offload") ? "all" : "none"),
             "training.enable_cpu_offload");
  const std::string dtype = job.word("training.mixed_precision_param").value_or("bfloat16");
  if (dtype != "bfloat16" && dtype != "float32") {
    job.wrong("training.mixed_precision_param", "is unknown", "use bfloat16 or float32");
  }
  job.assign("precision.compute", std::string(dtype == "float32" ? "fp32" : "bf16"),
             "training.mixed_precision_param");
  job.rows("optim.");
  if (const auto steps = job.integer("training.steps")) {
    job.assign("run.steps", *steps, "training.steps");
  }
  job.refuse_all(kTorchtitanRefusals);
  return job.finish();
}

}  // namespace trireme
