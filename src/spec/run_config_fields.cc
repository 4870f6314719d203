#include "spec/run_config_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/nearest_name.h"
#include "base/or_list.h"

namespace trireme {
namespace {

constexpr FieldEffect kResults = FieldEffect::Results;
constexpr FieldEffect kMesh = FieldEffect::Mesh;
constexpr FieldEffect kLayout = FieldEffect::Layout;
constexpr FieldEffect kSpeed = FieldEffect::Speed;

constexpr std::string_view kZeroLevels[] = {"0", "1", "2", "3"};

class FieldList {
 public:
  void section(std::string_view name) { section_ = name; }

  template <typename T>
  requires(!Choice<T>) void add(std::string_view name, T& value, FieldEffect effect,
                                std::string_view doc, ChoiceNames choices = {}) {
    fields_.push_back({section_, name, doc, effect, choices, &value});
  }
  template <Choice E>
  void add(std::string_view name, E& value, FieldEffect effect, std::string_view doc) {
    const ChoiceField field{reinterpret_cast<unsigned char*>(&value), choice_names<E>()};
    fields_.push_back({section_, name, doc, effect, field.names, field});
  }

  std::vector<ConfigField> take() { return std::move(fields_); }

 private:
  std::string_view section_;
  std::vector<ConfigField> fields_;
};

void model_fields(FieldList& list, ModelConfig& model) {
  list.section("model");
  list.add(
      "preset", model.preset, kResults,
      "a file of models/, such as \"gpt2-124m\", that lies right below the layer naming it and "
      "replaces the model of lower ones; empty once resolved");
  list.add(
      "family", model.family, kResults,
      "gpt2: learned positions, LayerNorm, GELU; llama: RoPE, RMSNorm, SwiGLU, no biases; moe: "
      "llama with experts");
  list.add("layers", model.layers, kResults, "number of transformer layers");
  list.add("d_model", model.d_model, kResults, "width of the residual stream");
  list.add("heads", model.heads, kResults, "query heads");
  list.add("kv_heads", model.kv_heads, kResults, "key and value heads; 0: as many as heads");
  list.add("head_dim", model.head_dim, kResults, "width of a head; 0: d_model / heads");
  list.add("d_ff", model.d_ff, kResults,
           "width of the MLP; 0: 4 d_model, or 8/3 d_model rounded up to 64 with SwiGLU");
  list.add("vocab_size", model.vocab_size, kResults, "rows of the embedding; 0: the tokenizer's");
  list.add("seq_len", model.seq_len, kResults, "tokens of a sequence, the longest context");
  list.add("activation", model.activation, kResults,
           "of the MLP; empty: the family's, gelu_tanh (gpt2) or swiglu (llama)");
  list.add("norm", model.norm, kResults,
           "empty: the family's, layer_norm (gpt2) or rms_norm (llama)");
  list.add("positions", model.positions, kResults,
           "empty: the family's, learned (gpt2) or rope (llama)");
  list.add("bias", model.bias, kResults, "gpt2: biases in linear layers and LayerNorm");
  list.add("norm_gain", model.norm_gain, kResults, "norms have a learned gain");
  list.add("embedding_norm", model.embedding_norm, kResults, "a norm right behind the embedding");
  list.add("final_norm", model.final_norm, kResults, "a norm in front of the head");
  list.add("tied_head", model.tied_head, kResults, "the head reads the embedding's table");
  list.add("norm_eps", model.norm_eps, kResults, "added to the variance inside norms");
  list.add(
      "dropout", model.dropout, kResults,
      "probability of dropping an element behind embedding, attention weights and projections");
  list.add("init_stddev", model.init_stddev, kResults, "of the normal initial weights");
  list.add("init_scale_residual", model.init_scale_residual, kResults,
           "projections onto the residual stream start at stddev / sqrt(2 layers)");
  list.add("rope_theta", model.rope_theta, kResults, "base of the rotary frequencies");
  list.add("rope_scaling_factor", model.rope_scaling_factor, kResults,
           "Llama 3's stretching of low frequencies; 1: none");
  list.add("rope_low_freq_factor", model.rope_low_freq_factor, kResults,
           "wavelengths above original length / this are stretched in full");
  list.add("rope_high_freq_factor", model.rope_high_freq_factor, kResults,
           "wavelengths below original length / this are not stretched");
  list.add("rope_original_seq_len", model.rope_original_seq_len, kResults,
           "context length before stretching");
  list.add("experts", model.experts, kResults, "moe: experts of d_ff that tokens are routed to");
  list.add("top_k", model.top_k, kResults, "moe: experts that a token visits");
  list.add("shared_experts", model.shared_experts, kResults,
           "moe: experts of d_ff that every token visits, beside the routed ones");
  list.add("router", model.router, kResults,
           "moe: how a token's logits become the scores of experts");
  list.add("expert_groups", model.expert_groups, kResults,
           "moe: neighbouring experts form so many groups; a token stays inside the best of them");
  list.add("top_groups", model.top_groups, kResults,
           "moe: groups that a token may visit, by the sum of their two best experts");
  list.add("capacity_factor", model.capacity_factor, kResults,
           "moe: an expert takes this many times its even share of a micro-batch, in the order of "
           "tokens, and drops the rest; 0: it takes all");
  list.add("aux_loss", model.aux_loss, kResults,
           "moe: weight of the loss that evens out the experts' load in every sequence");
  list.add("z_loss", model.z_loss, kResults,
           "moe: weight of the squared log-sum-exp of the router's logits");
  list.add("balance_rate", model.balance_rate, kResults,
           "moe: step by which a bias on the choice of an expert follows its load, without a "
           "loss; 0: there is none");
}

void data_fields(FieldList& list, DataConfig& data) {
  list.section("data");
  list.add("source", data.source, kResults,
           "files: token files; synthetic: keyed tokens with structure to learn, no file needed");
  list.add("train", data.train, kResults, "token file to train on (trireme data prepare)");
  list.add("val", data.val, kResults, "token file for the validation loss; empty: none");
  list.add("tokenizer", data.tokenizer, kResults,
           "tokenizer.json (trireme tokenizer train), kept with checkpoints and used for samples");
}

void batch_fields(FieldList& list, BatchConfig& batch) {
  list.section("batch");
  list.add("global_sequences", batch.global_sequences, kResults,
           "sequences of a step over all ranks; 0: from global_tokens, or micro_sequences * dp");
  list.add("global_tokens", batch.global_tokens, kResults,
           "the same in tokens: a multiple of model.seq_len; 0: from global_sequences");
  list.add("micro_sequences", batch.micro_sequences, kResults,
           "sequences that one rank takes at once; gradients are accumulated over the rest");
}

void optim_fields(FieldList& list, OptimConfig& optim) {
  list.section("optim");
  list.add("name", optim.name, kResults, "the optimizer");
  list.add("lr", optim.lr, kResults, "highest learning rate");
  list.add("min_lr", optim.min_lr, kResults, "learning rate that the schedule ends at");
  list.add("beta1", optim.beta1, kResults, "adamw: decay of the first moment");
  list.add("beta2", optim.beta2, kResults, "adamw: decay of the second moment");
  list.add("eps", optim.eps, kResults, "adamw: added to the root of the second moment");
  list.add("weight_decay", optim.weight_decay, kResults, "decoupled, on matrices only");
  list.add("momentum", optim.momentum, kResults, "sgd: decay of the running gradient");
  list.add("schedule", optim.schedule, kResults, "of the learning rate, behind the warm-up");
  list.add("warmup_steps", optim.warmup_steps, kResults, "steps of linear growth up to lr");
  list.add("decay_steps", optim.decay_steps, kResults,
           "wsd: length of the last decay; 0: a fifth of the run");
  list.add("clip_norm", optim.clip_norm, kResults,
           "largest global norm of the gradient; 0: no clipping");
  list.add("post_validate", optim.post_validate, kSpeed,
           "ranks update before they know the global norm, keep copies, and update again where it "
           "had to be clipped");
}

void parallel_fields(FieldList& list, ParallelConfig& parallel) {
  list.section("parallel");
  list.add("dp", parallel.dp, kLayout, "data-parallel degree");
  list.add("tp", parallel.tp, kMesh, "tensor-parallel degree: splits heads and the MLP");
  list.add("pp", parallel.pp, kLayout, "pipeline-parallel degree: splits layers into stages");
  list.add("cp", parallel.cp, kResults, "context-parallel degree: splits the sequence");
  list.add("ep", parallel.ep, kResults, "expert-parallel degree, inside dp * cp");
  list.add("schedule", parallel.schedule, kLayout, "of the pipeline (trireme schedule prints it)");
  list.add("chunks", parallel.chunks, kLayout, "stages that each pipeline rank holds");
  list.add("zero", parallel.zero, kLayout,
           "sharded over dp: 0 nothing, 1 optimizer, 2 and gradients, 3 and parameters",
           kZeroLevels);
  list.add("hsdp_shard", parallel.hsdp_shard, kLayout,
           "ranks of dp that a ZeRO shard group spans; 0: all of them");
  list.add("sync", parallel.sync, kLayout,
           "how copies stay alike: all of them add the gradients, or they are pushed to servers "
           "among the dp ranks, updated there and pulled");
  list.add("servers", parallel.servers, kLayout,
           "sync = parameter_server: how many of the dp ranks share the parameters out");
  list.add("staleness", parallel.staleness, kResults,
           "sync = parameter_server: steps that a rank may be ahead of the slowest; 0: none, all "
           "step together");
  list.add("context", parallel.context, kResults,
           "how queries meet keys of other cp ranks: keys go round, or heads are shared out");
  list.add("sequence", parallel.sequence, kResults,
           "tensor parallelism keeps the residual stream split along the sequence");
  list.add("tp_overlap", parallel.tp_overlap, kMesh,
           "tensor parallelism moves some rows of tokens while others are multiplied");
  list.add("bucket_bytes", parallel.bucket_bytes, kLayout,
           "gradients that are reduced, and with zero = 3 parameters that are gathered, as one: "
           "neighbouring layers up to this many bytes of gradients; 0: each layer for itself");
  list.add("prefetch", parallel.prefetch, kLayout,
           "zero = 2 and 3: pieces on their way while one is in use; each takes its memory");
}

void memory_fields(FieldList& list, MemoryConfig& memory) {
  list.section("memory");
  list.add("recompute", memory.recompute, kSpeed,
           "activations computed again in the backward pass: none, the cheap ones, whole layers");
  list.add("offload", memory.offload, kSpeed,
           "what lies in a file and is in memory only while it is used: nothing, the optimizer's "
           "moments and master weights, or all parameters too");
  list.add("offload_folder", memory.offload_folder, kSpeed,
           "where that file is kept while the run lasts; empty: in the run's folder");
  list.add("offload_buffer_bytes", memory.offload_buffer_bytes, kSpeed,
           "of each of the three buffers through which it passes");
  list.add("limit_bytes", memory.limit_bytes, kSpeed,
           "a plan above it is refused; 0: what the host has available");
}

void run_fields(FieldList& list, RunSection& run) {
  list.section("run");
  list.add("seed", run.seed, kResults, "of initial weights, data order, dropout and samples");
  list.add("steps", run.steps, kResults, "total number of steps, over all resumptions");
  list.add("stop_after", run.stop_after, kSpeed,
           "save and leave after this step, as a signal would; 0: run to the end");
  list.add(
      "reproducible", run.reproducible, kResults,
      "fixed: a run repeats itself bitwise; layout: also whatever dp, pp and threads are; mesh: "
      "also whatever tp is, slower");
  list.add("threads_per_rank", run.threads_per_rank, kSpeed,
           "0: cores of this host / ranks on it, at least 1");
  list.add("backend", run.backend, kSpeed, "local: ranks are threads; mpi: ranks are processes");
  list.add("comm_timeout_s", run.comm_timeout_s, kSpeed,
           "deadline of every wait between ranks; saving and loading have checkpoint.timeout_s");
  list.add("eval_every", run.eval_every, kSpeed,
           "steps between validation losses; 0: at the last step alone");
  list.add("eval_sequences", run.eval_sequences, kSpeed, "sequences of one validation loss");
  list.add("sample_every", run.sample_every, kSpeed,
           "steps between samples of text, which rank 0 writes where it holds the whole model; 0: "
           "never");
  list.add("sample_tokens", run.sample_tokens, kSpeed, "length of a sample");
  list.add("sample_prompt", run.sample_prompt, kSpeed, "what a sample continues");
  list.add("isa", run.isa, kResults,
           "kernels: auto takes the best that the CPU has; reference is slow and exact");
  list.add(
      "hardware", run.hardware, kSpeed,
      "hardware file of this machine (trireme calibrate) that predictions are made with; empty: "
      "what can be measured in a moment");
  list.add("tensorboard", run.tensorboard, kSpeed, "write TensorBoard event files");
  list.add("histograms_every", run.histograms_every, kSpeed,
           "steps between histograms of weights and gradients for TensorBoard; 0: never");
  list.add("prometheus_file", run.prometheus_file, kSpeed,
           "file with the newest numbers for Prometheus, written anew every second; empty: none");
  list.add("prometheus_port", run.prometheus_port, kSpeed,
           "port at which rank 0 offers the newest numbers to Prometheus; 0: none");
  list.add("prometheus_host", run.prometheus_host, kSpeed,
           "address that the port is offered at; 0.0.0.0: to other machines too");
}

void remaining_fields(FieldList& list, RunConfig& config) {
  list.section("precision");
  list.add("compute", config.precision.compute, kResults,
           "of weights, activations and matmuls; bf16 and fp16 keep fp32 master weights and "
           "gradients");
  list.add("loss_scale", config.precision.loss_scale, kResults,
           "fp16: factor of the gradients at the first step, a power of two; halved when they "
           "overflow");
  list.add("loss_scale_window", config.precision.loss_scale_window, kResults,
           "fp16: steps without an overflow before the factor is doubled");
  list.section("checkpoint");
  list.add("every", config.checkpoint.every, kSpeed,
           "steps between checkpoints; 0: only at the end and on a signal");
  list.add("keep", config.checkpoint.keep, kSpeed,
           "newest checkpoints that stay, each read back whole before an older one is removed; "
           "0: all");
  list.add("keep_every", config.checkpoint.keep_every, kSpeed,
           "checkpoints of multiples of so many steps are never removed; 0: none");
  list.add("fallback_folder", config.checkpoint.fallback_folder, kSpeed,
           "of this run alone: takes checkpoints when the run's folder is gone or cannot be "
           "written, and --resume auto looks there, too; empty: such a run ends");
  list.add("at_end", config.checkpoint.at_end, kSpeed, "save when the last step is done");
  list.add("timeout_s", config.checkpoint.timeout_s, kSpeed,
           "how long a rank may save, load or verify without progress while the others wait");
}

void trace_fields(FieldList& list, TraceConfig& trace) {
  list.section("trace");
  list.add("first_step", trace.first_step, kSpeed, "first step of trace.rankR.json");
  list.add("steps", trace.steps, kSpeed, "traced steps; 0: none");
  list.add("ranks", trace.ranks, kSpeed,
           "ranks such as \"3,17\" that the report of more than 16 shows beside the slowest and "
           "fastest");
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (byte < 0x20 || byte == 0x7f) {
          out += fmt::format("\\u{:04X}", byte);
        } else {
          out += c;
        }
    }
  }
  return out + "\"";
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

struct TomlText {
  std::string operator()(const bool* value) const { return *value ? "true" : "false"; }
  std::string operator()(const int* value) const { return std::to_string(*value); }
  std::string operator()(const int64_t* value) const { return std::to_string(*value); }
  std::string operator()(const uint64_t* value) const { return std::to_string(*value); }
  std::string operator()(const double* value) const { return number_text(*value); }
  std::string operator()(const std::string* value) const { return quoted(*value); }
  std::string operator()(const ChoiceField& field) const {
    return quoted(std::string(field.name()));
  }
};

struct TypeName {
  std::string_view operator()(const bool*) const { return "true or false"; }
  std::string_view operator()(const int*) const { return "an integer"; }
  std::string_view operator()(const int64_t*) const { return "an integer"; }
  std::string_view operator()(const uint64_t*) const { return "an integer, not negative"; }
  std::string_view operator()(const double*) const { return "a number"; }
  std::string_view operator()(const std::string*) const { return "a string"; }
  std::string_view operator()(const ChoiceField&) const { return "a string"; }
};

}  // namespace

std::string ConfigField::key() const { return fmt::format("{}.{}", section, name); }

std::vector<ConfigField> config_fields(RunConfig& config) {
  FieldList list;
  model_fields(list, config.model);
  data_fields(list, config.data);
  batch_fields(list, config.batch);
  optim_fields(list, config.optim);
  parallel_fields(list, config.parallel);
  memory_fields(list, config.memory);
  remaining_fields(list, config);
  run_fields(list, config.run);
  trace_fields(list, config.trace);
  return list.take();
}

std::vector<ConfigField> config_fields(const RunConfig& config) {
  return config_fields(const_cast<RunConfig&>(config));
}

const std::vector<ConfigSection>& config_sections() {
  static const std::vector<ConfigSection> sections = {
      {"model", "What is trained."},
      {"data", "What it is trained on."},
      {"batch", "How much of it a step takes. The number of accumulated micro-batches is derived."},
      {"optim", "How weights follow gradients."},
      {"parallel", "How the work is split. World size = dp * tp * pp * cp."},
      {"memory", "What is traded for memory."},
      {"precision", "What numbers are made of."},
      {"checkpoint", "When the run is saved."},
      {"run", "Length, seed, machine, and what is looked at on the way."},
      {"trace", "Which steps are recorded for Perfetto."},
  };
  return sections;
}

bool ChoiceField::set(std::string_view name) const {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return false;
  *value = static_cast<unsigned char>(found - names.begin());
  return true;
}

std::string or_choices(ChoiceNames choices) {
  std::vector<std::string> names(choices.begin(), choices.end());
  for (std::string& name : names) name = name.empty() ? "\"\"" : name;
  return or_list(names);
}

std::string nearest_choice(std::string_view word, ChoiceNames choices) {
  const std::string nearest = nearest_name(word, {choices.begin(), choices.end()});
  return nearest.empty() ? "" : "; did you mean " + nearest + "?";
}

std::string_view type_name(const ConfigField& field) { return std::visit(TypeName{}, field.value); }
std::string toml_text(const ConfigField& field) { return std::visit(TomlText{}, field.value); }

}  // namespace trireme
