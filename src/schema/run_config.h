#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schema/layer_rules.h"
#include "schema/run_config_choices.h"

namespace trireme {

// One struct per section of RUN.toml; the defaults stand here, the words about each field in
// *_fields.cc, from which parsing, printing and help are made. The names of enums are in
// run_config_choices.h.

struct ModelConfig {
  std::string preset;  // "" or the name of a file in models/
  ModelFamily family = ModelFamily::Gpt2;
  int64_t layers = 4;
  int64_t d_model = 128;
  int64_t heads = 4;
  int64_t kv_heads = 0;    // 0: as many as heads
  int64_t head_dim = 0;    // 0: d_model / heads
  int64_t d_ff = 0;        // 0: 4 d_model (gpt2), 8/3 d_model rounded up to 64 (llama)
  int64_t vocab_size = 0;  // 0: that of the tokenizer
  int64_t seq_len = 128;
  ActivationChoice activation = ActivationChoice::Default;  // gpt2: GeluTanh; llama: Swiglu
  NormChoice norm = NormChoice::Default;                    // gpt2: LayerNorm; llama: RmsNorm
  PositionsChoice positions = PositionsChoice::Default;     // gpt2: Learned; llama: Rope
  bool bias = true;                                         // gpt2: biases of linears and norms
  bool norm_gain = true;                                    // false: norms without parameters
  bool parallel_block = false;  // attention and MLP beside each other (GPT-J, PaLM)
  double layer_scale = 0.0;     // 0: none
  bool embedding_norm = false;  // a norm right after the embedding (microgpt)
  bool final_norm = true;
  bool tied_head = true;  // the head uses the embedding's table (false in the files of llama)
  double norm_eps = 1e-5;
  double dropout = 0.0;  // of embedding, residual and attention
  double init_stddev = 0.02;
  // Projections into the residual stream use stddev / sqrt(2 layers).
  bool init_scale_residual = true;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling = RopeScaling::Llama3;
  double rope_scaling_factor = 1.0;  // 1: none
  double rope_low_freq_factor = 1.0;
  double rope_high_freq_factor = 4.0;
  int64_t rope_original_seq_len = 8192;
  double rope_mscale = 1.0;  // yarn: logits times (0.1 rope_mscale ln(rope_scaling_factor) + 1)^2
  bool qk_norm = false;      // an RMS norm of every head of q and k, before rotary positions
  int64_t window = 0;        // keys that a query sees, its own included; 0: all before it
  // Latent attention (DeepSeek-V2); head_dim is then the width of q and k without positions.
  int64_t kv_lora_rank = 0;      // width of the latent of keys and values; 0: none
  int64_t q_lora_rank = 0;       // width of the latent of queries; 0: none
  int64_t qk_rope_head_dim = 0;  // of the part of q and k that rotary positions turn
  int64_t v_head_dim = 0;        // 0: head_dim
  // Sparse attention (DeepSeek-V3.2, GLM-5): an indexer chooses the keys that a query sees.
  int64_t index_top_k = 0;     // how many; 0: none, a query sees all keys before it
  int64_t index_heads = 0;     // heads of the indexer's queries
  int64_t index_head_dim = 0;  // width of one of them, and of the indexer's only key of a token
  // The next fields are only for moe. d_ff is the width of one expert.
  int64_t experts = 8;  // experts to which tokens are routed
  int64_t top_k = 2;    // how many of them each token visits
  int64_t shared_experts = 0;
  int64_t dense_layers = 0;  // the first layers, which have an MLP instead of experts
  int64_t dense_d_ff = 0;    // of their MLP; 0: (top_k + shared_experts) d_ff
  RouterType router = RouterType::Softmax;
  int64_t expert_groups = 1;  // a token's experts lie in the best top_groups of so many groups
  int64_t top_groups = 1;
  double routed_scaling = 1.0;   // factor of the weights of routed experts
  double capacity_factor = 0.0;  // 0: dropless
  double aux_loss = 0.01;
  double z_loss = 0.0;
  double balance_rate = 0.0;
  // Multi-token prediction (DeepSeek-V3): modules behind the last layer, each of which predicts one
  // token further ahead.
  int64_t mtp_depth = 0;  // 0: none
  double mtp_loss_weight = 0.3;
  // Adapters (LoRA) beside frozen matrices.
  int64_t lora_rank = 0;             // 0: none
  double lora_alpha = 0.0;           // 0: 2 lora_rank
  std::string lora_targets = "all";  // names between commas (schema/lora_targets.h)
  // Nets of images. Their layers are those of schema/image_net.h; a sample has one target.
  int64_t image_size = 0;        // rows and columns
  int64_t image_channels = 3;    // 1: grey
  int64_t width_factor = 1;      // conv_net, wide_resnet: factor of the channels
  int64_t base_channels = 0;     // conv_net, wide_resnet: of the first convolution; 0: usual ones
  bool widen_first_conv = true;  // wide_resnet: width_factor counts for both inner convolutions
  NormBatch batch_norm = NormBatch::MicroBatch;
};

// A token file of a mixture. Of the samples it gives its weight, divided by all weights.
struct WeightedFile {
  std::string path;
  double weight = 1.0;
};

struct DataConfig {
  DataSource source = DataSource::Files;
  // The key `train` is one token file, or a list of them; one of these two is empty.
  std::string train;
  std::vector<WeightedFile> train_mixture;
  std::string val;        // token file; "": no validation
  std::string tokenizer;  // tokenizer.json of `trireme tokenizer train`; copied into checkpoints
  bool document_mask = false;  // documents of one sequence do not see each other
  // Of images.
  double val_fraction = 0.0;  // of the images of `train`, held out where `val` is empty
  bool flip = false;          // left and right change places in half of the samples
  int64_t crop_margin = 0;    // pixels by which a training image may be moved
};

struct BatchConfig {
  int64_t global_sequences = 0;  // set one of the two, or neither (then micro_sequences * dp)
  int64_t global_tokens = 0;
  int64_t micro_sequences = 8;
};

struct OptimConfig {
  OptimizerKind name = OptimizerKind::AdamW;
  double lr = 6e-4;
  double min_lr = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;  // matrices only
  double momentum = 0.9;      // sgd
  double muon_momentum = 0.95;
  double qk_clip = 0.0;  // muon: heads with a larger logit are scaled down to it; 0: none
  LrScheduleKind schedule = LrScheduleKind::Cosine;
  int64_t warmup_steps = 0;
  int64_t decay_steps = 0;  // wsd: length of the last decay; 0: a fifth of the run
  double clip_norm = 1.0;   // 0: no clipping
  StateChoice grad_dtype = StateChoice::Fp32;
  StateChoice moment_dtype = StateChoice::Fp32;
  bool master = true;  // fp32 weights beside 16-bit ones
  bool post_validate = false;
  std::string frozen;  // patterns of parameters that are not trained (schema/param_patterns.h)
};

struct ParallelConfig {
  int dp = 1;
  int tp = 1;
  int pp = 1;
  int cp = 1;
  int ep = 1;
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  int chunks = 0;            // model chunks per rank; 0: default of the schedule
  std::string stage_tp;      // ranks along tp at each place of the pipeline, "1,2"; "": tp
  std::string stage_dp;      // ranks along dp at each place of the pipeline, "2,1"; "": dp
  std::string stage_layers;  // layers of each stage, "3,5"; "": stages of equal cost
  int zero = 0;
  int hsdp_shard = 0;
  std::string order = "tp,cp,pp,dp";  // of the axes over ranks, innermost first
  GradSync sync = GradSync::AllReduce;
  int servers = 1;    // of the dp ranks: those that keep what is updated
  int staleness = 0;  // pushes that a worker may be ahead; 0: synchronous
  bool sequence = false;
  bool tp_overlap = false;
  bool pair = false;  // DualPipe: F&BW pairs run beside each other
  ContextExchange context = ContextExchange::Ring;
  std::vector<LayerRule> layers;  // empty: the usual strategy of every layer
  int64_t bucket_bytes = 0;       // gradients that are reduced together; 0: each unit separately
  int prefetch = 1;               // units whose parameters or gradients are in transfer
};

struct MemoryConfig {
  Recompute recompute = Recompute::None;
  OffloadChoice offload = OffloadChoice::None;
  std::string offload_folder;  // "": the run's
  int64_t offload_buffer_bytes = 16 << 20;
  int64_t limit_bytes = 0;  // larger plans are refused; 0: the memory of the host
};

struct PrecisionConfig {
  ComputeChoice compute = ComputeChoice::Bf16;
  double loss_scale = 256.0;         // fp16: at the first step
  int64_t loss_scale_window = 1000;  // fp16: good steps before it is doubled
};

// A number of steps that the run itself chooses and changes. It is written "auto" in RUN.toml.
inline constexpr int64_t kAutoSteps = -1;

struct CheckpointConfig {
  int64_t every = 0;  // in steps, or kAutoSteps; 0: only at the end and on a signal
  int64_t keep = 3;
  int64_t keep_every = 0;                 // in steps; 0: none
  BestChoice best = BestChoice::ValLoss;  // kept beside them, if there is validation data
  bool asynchronous = true;               // training continues while a checkpoint is written
  std::string fallback_folder;            // "": none
  std::string store;                      // store://NAME/PATH, a copy of the run; "": none
  int64_t memory_every = 0;               // in steps, or kAutoSteps; 0: never
  std::string parity = "auto";            // see parse_parity
  bool at_end = true;
  double timeout_s = 300.0;  // limit without progress
};

struct RunSection {
  uint64_t seed = 1337;
  int64_t steps = 100;
  int64_t stop_after = 0;
  Reproducible reproducible = Reproducible::Fixed;
  int threads_per_rank = 0;  // 0: max(1, cores / ranks on this host)
  BackendChoice backend = BackendChoice::Local;
  double comm_timeout_s = 60.0;
  int64_t eval_every = 0;  // in steps; 0: only at the last step
  int64_t eval_sequences = 64;
  int64_t stop_patience = 0;  // in validations without a better one; 0: train to the end
  int64_t sample_every = 0;
  int64_t sample_tokens = 64;
  std::string sample_prompt = "\n";
  IsaChoice isa = IsaChoice::Auto;
  std::string hardware;  // a hardware file; "": measured for a moment at the start
  bool tensorboard = true;
  int64_t histograms_every = 0;   // in steps; 0: never
  int64_t noise_scale_every = 0;  // in steps; 0: never
  SpikeChoice spike = SpikeChoice::None;
  bool skip_bad_batches = false;
  std::string skip_samples;            // such as "28-31,96-99"
  int64_t check_state_every = 0;       // in steps; 0: never
  int64_t replay_every = 0;            // in steps; 0: never
  int64_t replay_elsewhere_every = 0;  // in steps; 0: never
  int64_t check_products_every = 0;    // in steps; 0: never
  std::string prometheus_file;         // "": none
  int prometheus_port = 0;             // 0: none
  std::string prometheus_host = "127.0.0.1";
  bool prometheus_ranks = false;               // also what every rank has measured
  int64_t metrics_bytes = int64_t{256} << 20;  // of metrics.jsonl before it is rotated; 0: never
};

struct TraceConfig {
  int64_t first_step = 2;  // traced steps: first_step .. first_step + steps - 1
  int64_t steps = 3;
  std::string ranks;  // such as "3,17": added to the ranks that the report chooses
};

struct RunConfig {
  ModelConfig model;
  DataConfig data;
  BatchConfig batch;
  OptimConfig optim;
  ParallelConfig parallel;
  MemoryConfig memory;
  PrecisionConfig precision;
  CheckpointConfig checkpoint;
  RunSection run;
  TraceConfig trace;
};

}  // namespace trireme
