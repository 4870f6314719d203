#include "schema/run_config_fields.h"

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

  void add_steps(std::string_view name, int64_t& value, FieldEffect effect, std::string_view doc) {
    fields_.push_back({section_, name, doc, effect, {}, StepsField{&value}});
  }

  void add_mixture(std::string_view name, MixtureField value, FieldEffect effect,
                   std::string_view doc) {
    fields_.push_back({section_, name, doc, effect, {}, value});
  }

  void add_layers(std::string_view name, std::vector<LayerRule>& value, FieldEffect effect,
                  std::string_view doc) {
    fields_.push_back({section_, name, doc, effect, {}, LayersField{&value}});
  }

  std::vector<ConfigField> take() { return std::move(fields_); }

 private:
  std::string_view section_;
  std::vector<ConfigField> fields_;
};

void model_fields(FieldList& list, ModelConfig& model) {
  list.section("model");
  list.add("preset", model.preset, kResults,
           "name of a file in models/, such as \"gpt2-124m\"; its model replaces that of earlier "
           "files, and the file that names the preset can override its keys; empty in the resolved "
           "configuration");
  list.add("family", model.family, kResults,
           "gpt2: learned positions, LayerNorm, GELU; llama: RoPE, RMSNorm, SwiGLU, no biases; "
           "moe: llama with a mixture of experts in place of the MLP; the others read images: "
           "conv_net is small, alexnet, vgg16, resnet50 and wide_resnet are the known ones");
  list.add("layers", model.layers, kResults, "number of transformer layers");
  list.add("d_model", model.d_model, kResults, "width of the residual stream");
  list.add("heads", model.heads, kResults, "number of query heads");
  list.add("kv_heads", model.kv_heads, kResults,
           "number of key and value heads; 0: as many as query heads");
  list.add("head_dim", model.head_dim, kResults, "width of one head; 0: d_model / heads");
  list.add("d_ff", model.d_ff, kResults,
           "hidden width of the MLP; 0: 4 d_model, or 8/3 d_model rounded up to a multiple of 64 "
           "with SwiGLU");
  list.add("vocab_size", model.vocab_size, kResults,
           "number of rows in the embedding table; 0: the vocabulary size of the tokenizer");
  list.add("seq_len", model.seq_len, kResults,
           "tokens in one sequence, which is also the longest context");
  list.add("activation", model.activation, kResults,
           "activation function of the MLP; empty: the default of the family, gelu_tanh (gpt2) or "
           "swiglu (llama)");
  list.add("norm", model.norm, kResults,
           "kind of normalization; empty: the default of the family, layer_norm (gpt2) or rms_norm "
           "(llama)");
  list.add("positions", model.positions, kResults,
           "kind of position encoding; empty: the default of the family, learned (gpt2) or rope "
           "(llama)");
  list.add("bias", model.bias, kResults, "gpt2: linear layers and LayerNorm have biases");
  list.add("norm_gain", model.norm_gain, kResults, "norms have a learned gain");
  list.add("parallel_block", model.parallel_block, kResults,
           "attention and MLP read the same norm of the layer's input, and both are added to it");
  list.add("layer_scale", model.layer_scale, kResults,
           "what attention and MLP add to the residual stream is multiplied by a trained gain per "
           "channel, which starts at this value; 0: no gains");
  list.add("embedding_norm", model.embedding_norm, kResults, "a norm follows the embedding");
  list.add("final_norm", model.final_norm, kResults, "a norm precedes the head");
  list.add("tied_head", model.tied_head, kResults,
           "the head shares its weights with the embedding table");
  list.add("norm_eps", model.norm_eps, kResults,
           "number that norms add to the variance to avoid a division by zero");
  list.add("dropout", model.dropout, kResults,
           "probability that an element is dropped after the embedding, the attention weights and "
           "the projections");
  list.add("init_stddev", model.init_stddev, kResults,
           "standard deviation of the normal distribution that initial weights are drawn from");
  list.add("init_scale_residual", model.init_scale_residual, kResults,
           "initial weights of projections onto the residual stream have the smaller standard "
           "deviation init_stddev / sqrt(2 layers)");
  list.add("rope_theta", model.rope_theta, kResults, "base of the rotary frequencies");
  list.add("rope_scaling", model.rope_scaling, kResults,
           "how frequencies between the two factors below are blended: llama3 by the number of "
           "turns, yarn by the logarithm of it, with sharper attention (rope_mscale)");
  list.add("rope_scaling_factor", model.rope_scaling_factor, kResults,
           "factor by which low rotary frequencies are stretched; 1: no stretching");
  list.add("rope_low_freq_factor", model.rope_low_freq_factor, kResults,
           "wavelengths longer than rope_original_seq_len divided by this are stretched by the "
           "full factor (beta_slow of YaRN)");
  list.add("rope_high_freq_factor", model.rope_high_freq_factor, kResults,
           "wavelengths shorter than rope_original_seq_len divided by this are not stretched "
           "(beta_fast of YaRN)");
  list.add("rope_original_seq_len", model.rope_original_seq_len, kResults,
           "context length for which the frequencies were made, before stretching");
  list.add("rope_mscale", model.rope_mscale, kResults,
           "yarn: attention logits are multiplied by (0.1 rope_mscale ln(rope_scaling_factor) + "
           "1)^2");
  list.add("qk_norm", model.qk_norm, kResults,
           "an RMS norm of every head of queries and keys before rotary positions, with one gain "
           "for all heads (Qwen3)");
  list.add("window", model.window, kResults,
           "number of keys that a query sees, its own included (sliding window of Mistral); 0: "
           "all keys before it");
  list.add("kv_lora_rank", model.kv_lora_rank, kResults,
           "width of the latent that keys and values are made from (latent attention of DeepSeek); "
           "head_dim is then the width of queries and keys without positions; 0: no latent");
  list.add("q_lora_rank", model.q_lora_rank, kResults,
           "width of the latent that queries are made from; 0: they are made from the residual "
           "stream");
  list.add("qk_rope_head_dim", model.qk_rope_head_dim, kResults,
           "latent attention: width of the part of queries and keys with rotary positions, which "
           "all heads of the keys share");
  list.add("v_head_dim", model.v_head_dim, kResults,
           "latent attention: width of a head of the values; 0: head_dim");
  list.add("experts", model.experts, kResults,
           "moe: number of experts that tokens are routed to; each has the width d_ff");
  list.add("top_k", model.top_k, kResults, "moe: number of routed experts that each token visits");
  list.add("shared_experts", model.shared_experts, kResults,
           "moe: number of experts that every token visits in addition to the routed ones; each "
           "has the width d_ff");
  list.add("dense_layers", model.dense_layers, kResults,
           "moe: number of layers, from the first on, that have a dense MLP instead of experts");
  list.add("dense_d_ff", model.dense_d_ff, kResults,
           "moe: width of the MLP of the dense layers; 0: as wide as the experts that a token "
           "visits, (top_k + shared_experts) * d_ff");
  list.add("router", model.router, kResults,
           "moe: function that turns the logits of a token into the scores of the experts");
  list.add("expert_groups", model.expert_groups, kResults,
           "moe: number of groups of neighbouring experts; a token visits only experts in its best "
           "groups");
  list.add("top_groups", model.top_groups, kResults,
           "moe: number of groups that a token may visit; the score of a group is the sum of its "
           "two best experts");
  list.add("routed_scaling", model.routed_scaling, kResults,
           "moe: factor of the weights of the routed experts, after they are divided by their sum");
  list.add("capacity_factor", model.capacity_factor, kResults,
           "moe: an expert accepts at most this many times its even share of the tokens in a "
           "micro-batch, in token order, and drops the rest; 0: no limit");
  list.add("aux_loss", model.aux_loss, kResults,
           "moe: weight of the loss that balances the load of the experts in each sequence");
  list.add(
      "z_loss", model.z_loss, kResults,
      "moe: weight of the squared log-sum-exp of the router logits, which is added to the loss");
  list.add("balance_rate", model.balance_rate, kResults,
           "moe: step size of a bias that balances the choice of experts by their load, without a "
           "loss; 0: no bias");
  list.add("mtp_depth", model.mtp_depth, kResults,
           "number of modules behind the last layer that each predict one token further ahead "
           "(multi-token prediction); they train the model and are left out of evaluation and "
           "generation; 0: none");
  list.add("mtp_loss_weight", model.mtp_loss_weight, kResults,
           "weight of the mean loss of these modules, which is added to the loss");
  list.add("lora_rank", model.lora_rank, kResults,
           "rank of the trained adapters (LoRA) beside the matrices of model.lora_targets; every "
           "other parameter is frozen; 0: no adapters, everything is trained");
  list.add("lora_alpha", model.lora_alpha, kResults,
           "an adapter adds lora_alpha / lora_rank times its product; 0: 2 lora_rank");
  list.add("lora_targets", model.lora_targets, kResults,
           "matrices of every layer that have an adapter, between commas: q, k, v, o, gate, up, "
           "down; all: each of them that the model has");
  list.add("image_size", model.image_size, kResults,
           "nets of images: rows and columns of an image; images of a folder are scaled to it");
  list.add("image_channels", model.image_channels, kResults,
           "nets of images: channels of a pixel; 1: grey, 3: red, green and blue");
  list.add("width_factor", model.width_factor, kResults,
           "conv_net: factor of the channels of every layer, which are 16, 32, ... ; wide_resnet: "
           "factor of the inner channels of every block");
}

void data_fields(FieldList& list, DataConfig& data) {
  list.section("data");
  list.add("source", data.source, kResults,
           "files: tokens come from token files; synthetic: tokens or images are generated from "
           "the seed, with structure that a model can learn, so that no file is needed; images: "
           "data.train is a set of images (trireme data images)");
  list.add_mixture("train", {&data.train, &data.train_mixture}, kResults,
                   "token file with the training data (trireme data prepare), or a list of files "
                   "with weights, as [{path = \"a.tok\", weight = 2.0}, {path = \"b.tok\"}]: of "
                   "three samples two come from a.tok");
  list.add("val", data.val, kResults, "token file for the validation loss; empty: no validation");
  list.add("tokenizer", data.tokenizer, kResults,
           "tokenizer.json of the data (trireme tokenizer train); it is saved with checkpoints and "
           "decodes samples");
  list.add(
      "document_mask", data.document_mask, kResults,
      "documents of one sequence do not see each other: attention begins at the first token of "
      "a document, positions begin there with 0, and no document predicts the next one's "
      "first token; the tokenizer's end-of-text token ends a document");
  list.add("val_fraction", data.val_fraction, kResults,
           "images: share of the images of data.train, spread evenly over them, that is held out "
           "for validation where data.val is empty");
  list.add("flip", data.flip, kResults,
           "images: left and right change places in half of the training samples");
  list.add("crop_margin", data.crop_margin, kResults,
           "images: training images are moved by up to so many pixels up, down, left and right");
}

void batch_fields(FieldList& list, BatchConfig& batch) {
  list.section("batch");
  list.add("global_sequences", batch.global_sequences, kResults,
           "sequences in one step over all ranks; 0: derived from global_tokens, else "
           "micro_sequences * dp");
  list.add("global_tokens", batch.global_tokens, kResults,
           "tokens in one step over all ranks, a multiple of model.seq_len; 0: derived from "
           "global_sequences");
  list.add(
      "micro_sequences", batch.micro_sequences, kResults,
      "sequences in one micro-batch; each rank accumulates the gradients of its micro-batches");
}

void optim_fields(FieldList& list, OptimConfig& optim) {
  list.section("optim");
  list.add("name", optim.name, kResults, "the optimizer");
  list.add("lr", optim.lr, kResults, "highest learning rate");
  list.add("min_lr", optim.min_lr, kResults,
           "learning rate at the end of the schedule; with schedule = range at its beginning");
  list.add("beta1", optim.beta1, kResults, "adamw: decay of the first moment");
  list.add("beta2", optim.beta2, kResults, "adamw: decay of the second moment");
  list.add("eps", optim.eps, kResults,
           "adamw: number added to the square root of the second moment");
  list.add("weight_decay", optim.weight_decay, kResults,
           "decoupled weight decay, which applies only to matrices");
  list.add("momentum", optim.momentum, kResults, "sgd: decay of the running gradient");
  list.add("muon_momentum", optim.muon_momentum, kResults,
           "muon: decay of the running gradient, whose orthogonal factor updates the matrices of "
           "layers; everything else is updated as by adamw");
  list.add("qk_clip", optim.qk_clip, kResults,
           "muon: if an attention logit of a head was larger than this in a step, the weights of "
           "its query and key are scaled so that it would have been this; 0: never");
  list.add("schedule", optim.schedule, kResults,
           "learning-rate schedule after the warm-up; range: no schedule to train with, but a test "
           "of rates, which rises by the same factor every step from min_lr to lr (trireme sweep "
           "--lr-range)");
  list.add("warmup_steps", optim.warmup_steps, kResults,
           "steps in which the learning rate grows linearly up to lr");
  list.add("decay_steps", optim.decay_steps, kResults,
           "wsd: number of steps in the final decay; 0: a fifth of the run");
  list.add("clip_norm", optim.clip_norm, kResults,
           "gradients with a larger global norm are scaled down to this norm; 0: no clipping");
  list.add("grad_dtype", optim.grad_dtype, kResults,
           "gradients as they are kept between micro-batches and sent; sums are computed in fp32 "
           "and rounded to it");
  list.add("moment_dtype", optim.moment_dtype, kResults,
           "moments of the optimizer; the update computes in fp32 and rounds them stochastically "
           "to bf16");
  list.add("master", optim.master, kResults,
           "an fp32 copy of the weights is updated; false: the weights in bf16 are updated and "
           "rounded stochastically");
  list.add("post_validate", optim.post_validate, kSpeed,
           "ranks update before the global norm is known and keep copies; if the gradient had to "
           "be clipped, they restore the copies and update again");
  list.add("frozen", optim.frozen, kResults,
           "parameters that keep their values: names or patterns with * between commas, such as "
           "\"embedding.*,layers.0.*\"; they have neither gradients nor optimizer state, and "
           "checkpoints hold them in the dtype of precision.compute, to which they are rounded");
}

void parallel_fields(FieldList& list, ParallelConfig& parallel) {
  list.section("parallel");
  list.add("dp", parallel.dp, kLayout, "data-parallel degree: splits the batch");
  list.add(
      "tp", parallel.tp, kMesh,
      "tensor-parallel degree: splits attention heads and the hidden units of the MLP; in nets "
      "of images, the images at convolutions and the units of dense layers");
  list.add("pp", parallel.pp, kLayout, "pipeline-parallel degree: splits the layers into stages");
  list.add("cp", parallel.cp, kResults, "context-parallel degree: splits each sequence");
  list.add("ep", parallel.ep, kResults,
           "expert-parallel degree: splits the experts over ranks of dp * cp");
  list.add("schedule", parallel.schedule, kLayout,
           "pipeline schedule (trireme schedule prints it)");
  list.add("chunks", parallel.chunks, kLayout, "number of stages that each pipeline rank holds");
  list.add("stage_tp", parallel.stage_tp, kMesh,
           "ranks along tp at each of the pp places of the pipeline, such as \"1,2\", where they "
           "differ: each number divides tp; empty: tp ranks at every place");
  list.add("stage_dp", parallel.stage_dp, kLayout,
           "ranks along dp at each of the pp places of the pipeline, such as \"2,1\", where they "
           "differ: each number divides dp, and each rank of a place with fewer ranks takes the "
           "micro-batches of several; empty: dp ranks at every place");
  list.add("stage_layers", parallel.stage_layers, kLayout,
           "layers of each stage, in the order of the model, such as \"3,5\"; empty: stages of "
           "equal cost");
  list.add("zero", parallel.zero, kLayout,
           "ZeRO stage, which says what is sharded over dp; 0: nothing; 1: the optimizer state; 2: "
           "gradients too; 3: parameters too",
           kZeroLevels);
  list.add("hsdp_shard", parallel.hsdp_shard, kLayout,
           "number of dp ranks in one ZeRO shard group; 0: all dp ranks");
  list.add("order", parallel.order, kMesh,
           "order in which the axes number the ranks, innermost first: neighbours, which share a "
           "node, differ in the first axes; it names tp, cp, pp and dp once each");
  list.add("sync", parallel.sync, kLayout,
           "all_reduce: dp ranks sum their gradients; parameter_server: they push gradients to "
           "servers among the dp ranks and pull the updated parameters");
  list.add("servers", parallel.servers, kLayout,
           "sync = parameter_server: number of dp ranks that are servers and share the parameters "
           "among them");
  list.add("staleness", parallel.staleness, kResults,
           "sync = parameter_server: number of steps that a rank may be ahead of the slowest one; "
           "0: all ranks step together");
  list.add("context", parallel.context, kResults,
           "how queries meet the keys of other cp ranks; ring: keys and values travel around a "
           "ring; all_to_all: each rank computes some of the heads for whole sequences");
  list.add_layers(
      "layers", parallel.layers, kResults,
      "how the tp ranks share out layers: a list of patterns for their names, in which * stands "
      "for any text; the first pattern that matches decides; data: every rank has all weights of "
      "the layer and some of the samples; tensor: some of the weights and all samples; spatial: "
      "all "
      "weights and some of the rows of each image, for convolutions; empty: data for convolutions, "
      "tensor for every other layer");
  list.add("sequence", parallel.sequence, kResults,
           "sequence parallelism: the tp ranks also split the residual stream along the sequence");
  list.add("tp_overlap", parallel.tp_overlap, kMesh,
           "tensor parallelism sends some rows of tokens while it multiplies others");
  list.add(
      "pair", parallel.pair, kSpeed,
      "dualpipe and dualpipev, zero = 0 and 1: while the transfers inside the layers of one "
      "direction travel, the rank computes the other direction; takes scratch memory for both");
  list.add("bucket_bytes", parallel.bucket_bytes, kLayout,
           "neighbouring layers form one bucket of at most this many gradient bytes; a bucket is "
           "reduced, and with zero = 3 gathered, in one call; 0: one bucket per layer");
  list.add("prefetch", parallel.prefetch, kLayout,
           "zero = 2 and 3: number of buckets that are in transfer while one is in use; each takes "
           "memory for one bucket");
}

void memory_fields(FieldList& list, MemoryConfig& memory) {
  list.section("memory");
  list.add(
      "recompute", memory.recompute, kSpeed,
      "activations that the backward pass computes again instead of keeping them; none: no "
      "activations; selective: the cheap ones; full: whole layers; fit: the cheapest ones with "
      "which the plan keeps within the memory limit");
  list.add("offload", memory.offload, kSpeed,
           "what is stored in a file and is in memory only while it is used; none: nothing; "
           "optimizer: moments and master weights; all: parameters too");
  list.add(
      "offload_folder", memory.offload_folder, kSpeed,
      "folder of the offload file, which exists only during the run; empty: the run directory");
  list.add("offload_buffer_bytes", memory.offload_buffer_bytes, kSpeed,
           "size of each of the three buffers through which offloaded data pass");
  list.add("limit_bytes", memory.limit_bytes, kSpeed,
           "a plan with a higher peak memory is refused; 0: the limit is the available memory of "
           "the host");
}

void run_fields(FieldList& list, RunSection& run) {
  list.section("run");
  list.add("seed", run.seed, kResults,
           "seed of the initial weights, the data order, dropout, stochastic rounding and samples");
  list.add("steps", run.steps, kResults, "total number of steps, including those before a resume");
  list.add("stop_after", run.stop_after, kSpeed,
           "save and stop after this step, as a signal would; 0: run to the end");
  list.add("reproducible", run.reproducible, kResults,
           "fixed: a run repeats itself bit for bit; layout: it also has the same bits for every "
           "dp, pp and number of threads; mesh: also for every tp, but it is slower");
  list.add("threads_per_rank", run.threads_per_rank, kSpeed,
           "number of threads of each rank; 0: cores of this host / ranks on it, at least 1");
  list.add(
      "backend", run.backend, kSpeed,
      "local: ranks are threads; mpi: processes under mpirun or srun; tcp: processes of trireme "
      "launch. The launcher decides, so the key need not be set, except that trireme launch "
      "starts mpirun if it is mpi");
  list.add("comm_timeout_s", run.comm_timeout_s, kSpeed,
           "deadline in seconds for every wait between ranks; checkpoint.timeout_s applies to "
           "saving and loading");
  list.add("eval_every", run.eval_every, kSpeed,
           "steps between two validation losses; 0: only at the last step");
  list.add("eval_sequences", run.eval_sequences, kSpeed,
           "number of sequences for one validation loss");
  list.add(
      "stop_patience", run.stop_patience, kResults,
      "the run saves and ends by itself after so many validations in a row that are not better "
      "than the best one; 0: it trains to the last step");
  list.add(
      "sample_every", run.sample_every, kSpeed,
      "steps between two text samples, which rank 0 writes if it holds the whole model; 0: never");
  list.add("sample_tokens", run.sample_tokens, kSpeed, "number of tokens in a sample");
  list.add("sample_prompt", run.sample_prompt, kSpeed, "text that a sample continues");
  list.add("isa", run.isa, kResults,
           "instruction set of the kernels; auto: the best one that the CPU has; reference: slow "
           "and exact");
  list.add("hardware", run.hardware, kSpeed,
           "hardware file of this machine (trireme calibrate) for predictions; empty: a short "
           "measurement at the start");
  list.add("tensorboard", run.tensorboard, kSpeed, "write TensorBoard event files");
  list.add("histograms_every", run.histograms_every, kSpeed,
           "steps between histograms of weights and gradients for TensorBoard; 0: never");
  list.add("noise_scale_every", run.noise_scale_every, kSpeed,
           "steps between measurements of the gradient noise scale, each of which costs a step; 0: "
           "never");
  list.add("spike", run.spike, kResults,
           "after a step whose loss is far above those before it: none; rollback: the run goes "
           "back to the newest checkpoint before it and leaves out the samples since then");
  list.add("skip_bad_batches", run.skip_bad_batches, kResults,
           "trireme launch: leave out the samples of a step that fails twice in the same way, "
           "instead of ending the run");
  list.add("skip_samples", run.skip_samples, kResults,
           "samples that are left out, by their global numbers, such as \"28-31,96-99\"; a batch "
           "that would have one of them begins behind them; empty: none");
  list.add("check_state_every", run.check_state_every, kSpeed,
           "steps between comparisons of the state that several ranks hold alike, which also come "
           "before every checkpoint; a difference ends the run as corrupt; 0: never");
  list.add("replay_every", run.replay_every, kSpeed,
           "steps between replays, each of which computes a step twice and compares every bit of "
           "its loss and gradient; a difference ends the run as corrupt; 0: never");
  list.add("replay_elsewhere_every", run.replay_elsewhere_every, kSpeed,
           "steps between replays on another rank of dp, which computes the gradients of the same "
           "samples and must get the same bits; a difference ends the run as corrupt and names "
           "the rank and its host; 0: never");
  list.add("check_products_every", run.check_products_every, kSpeed,
           "steps between those whose products of weights are all checked against a product with "
           "a random vector; a difference beyond rounding ends the run as corrupt; 0: never");
  list.add("prometheus_file", run.prometheus_file, kSpeed,
           "file for Prometheus with the newest metrics, rewritten every second; empty: no file");
  list.add("prometheus_port", run.prometheus_port, kSpeed,
           "port on which rank 0 serves the newest metrics to Prometheus; 0: no port");
  list.add("prometheus_host", run.prometheus_host, kSpeed,
           "address on which the port listens; 0.0.0.0: other machines can connect too");
  list.add("prometheus_ranks", run.prometheus_ranks, kSpeed,
           "also publish the computation, exposed communication, bubble and peak memory of every "
           "rank, in Prometheus and TensorBoard");
  list.add("metrics_bytes", run.metrics_bytes, kSpeed,
           "size at which metrics.jsonl is renamed to metrics.N.jsonl and begun anew, for long "
           "runs; 0: never");
}

void remaining_fields(FieldList& list, RunConfig& config) {
  list.section("precision");
  list.add("compute", config.precision.compute, kResults,
           "dtype of weights, activations and matrix products; master weights, gradients and "
           "moments are fp32, unless [optim] says bf16");
  list.add(
      "loss_scale", config.precision.loss_scale, kResults,
      "fp16: loss scale of the first step, a power of two; it is halved when gradients overflow");
  list.add("loss_scale_window", config.precision.loss_scale_window, kResults,
           "fp16: number of steps without an overflow after which the loss scale is doubled");
  list.section("checkpoint");
  list.add_steps("every", config.checkpoint.every, kSpeed,
                 "steps between checkpoints; 0: only at the end and on a signal; \"auto\": the run "
                 "chooses them by the measured cost of a save and the rate of failures");
  list.add("keep", config.checkpoint.keep, kSpeed,
           "number of newest checkpoints to keep; an older one is removed only after the kept ones "
           "were read back and verified; 0: keep all");
  list.add("keep_every", config.checkpoint.keep_every, kSpeed,
           "checkpoints at multiples of this many steps are never removed; 0: no such checkpoints");
  list.add("best", config.checkpoint.best, kSpeed,
           "val_loss: a validation better than all before is saved at once, and the best "
           "checkpoint is never removed (RUN_DIR/best names it); \"\" or none: only the newest are "
           "kept; without effect if the run validates or saves nothing");
  list.add(
      "asynchronous", config.checkpoint.asynchronous, kSpeed,
      "copy what is saved into a planned buffer beside the next step, and write it while training "
      "continues; saves wait for the disk if the buffer does not fit the memory, and with "
      "memory.offload or parallel.staleness; false: no buffer, every save waits for the disk");
  list.add("fallback_folder", config.checkpoint.fallback_folder, kSpeed,
           "folder for checkpoints if the run directory is lost or cannot be written; --resume "
           "auto searches it too; no other run may use it; empty: the run ends in this case");
  list.add("store", config.checkpoint.store, kSpeed,
           "store://NAME/PATH: a copy of the run directory in a store, brought up to date after "
           "every checkpoint; --resume auto fetches it if the run directory has nothing newer; "
           "--out store://NAME/PATH sets it; empty: no copy");
  list.add_steps(
      "memory_every", config.checkpoint.memory_every, kSpeed,
      "trireme launch: steps between checkpoints in the memory of the hosts, from which a run "
      "resumes if it loses ranks or hosts; they need two to three times the bytes of a "
      "checkpoint in /dev/shm, and parity; 0: none; \"auto\": as for every; without effect with "
      "memory.offload or parallel.staleness");
  list.add("parity", config.checkpoint.parity, kSpeed,
           "trireme launch on several hosts: K+M such as \"4+2\" lets M hosts of every K + M be "
           "lost without losing a checkpoint in memory, whose bytes grow by M / K; \"1+1\" is a "
           "copy; \"auto\": 1+1 for two hosts, 2+1 for more; \"none\": a lost host loses them");
  list.add("at_end", config.checkpoint.at_end, kSpeed, "save a checkpoint after the last step");
  list.add("timeout_s", config.checkpoint.timeout_s, kSpeed,
           "longest time in seconds that a rank may save, load or verify without progress while "
           "the others wait");
}

void trace_fields(FieldList& list, TraceConfig& trace) {
  list.section("trace");
  list.add("first_step", trace.first_step, kSpeed, "first step that trace.rankR.json records");
  list.add("steps", trace.steps, kSpeed, "number of steps to record; 0: none");
  list.add("ranks", trace.ranks, kSpeed,
           "ranks such as \"3,17\" that the report shows in addition to the slowest and fastest "
           "ones, if there are more than 16 ranks");
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

}  // namespace

std::string mixture_text(const std::vector<WeightedFile>& mixture) {
  std::string text;
  for (const WeightedFile& file : mixture) {
    text += fmt::format("{}{{path = {}, weight = {}}}", text.empty() ? "" : ", ", quoted(file.path),
                        number_text(file.weight));
  }
  return "[" + text + "]";
}

std::string layer_rules_text(const std::vector<LayerRule>& rules) {
  std::string text;
  for (const LayerRule& rule : rules) {
    text += fmt::format("{}{{match = {}, strategy = {}}}", text.empty() ? "" : ", ",
                        quoted(rule.match), quoted(std::string(name_of(rule.strategy))));
  }
  return "[" + text + "]";
}

namespace {

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
  std::string operator()(const StepsField& field) const {
    return *field.value == kAutoSteps ? "\"auto\"" : std::to_string(*field.value);
  }
  std::string operator()(const MixtureField& field) const {
    return field.mixture->empty() ? quoted(*field.file) : mixture_text(*field.mixture);
  }
  std::string operator()(const LayersField& field) const { return layer_rules_text(*field.rules); }
};

struct TypeName {
  std::string_view operator()(const bool*) const { return "true or false"; }
  std::string_view operator()(const int*) const { return "an integer"; }
  std::string_view operator()(const int64_t*) const { return "an integer"; }
  std::string_view operator()(const uint64_t*) const { return "an integer, not negative"; }
  std::string_view operator()(const double*) const { return "a number"; }
  std::string_view operator()(const std::string*) const { return "a string"; }
  std::string_view operator()(const ChoiceField&) const { return "a string"; }
  std::string_view operator()(const StepsField&) const {
    return "an integer, not negative, or \"auto\"";
  }
  std::string_view operator()(const MixtureField&) const {
    return "a path, or a list such as [{path = \"a.tok\", weight = 2.0}]";
  }
  std::string_view operator()(const LayersField&) const {
    return "a list such as [{match = \"fc*\", strategy = \"tensor\"}] with the strategies data, "
           "tensor and spatial";
  }
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
      {"model", "The model to train."},
      {"data", "The data that the model is trained on."},
      {"batch", "The size of a step. The number of accumulated micro-batches is derived."},
      {"optim", "The optimizer and its learning rate."},
      {"parallel", "How the work is split over ranks. World size = dp * tp * pp * cp."},
      {"memory", "Ways to need less memory, which cost time."},
      {"precision", "The number formats of computation."},
      {"checkpoint", "When the run is saved and which checkpoints are kept."},
      {"run", "Length, seed and threads of the run, and what it measures and reports."},
      {"trace", "The steps that are recorded for Perfetto."},
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
