#include "schema/field_list.h"

namespace trireme {

namespace {

constexpr std::string_view kZeroLevels[] = {"0", "1", "2", "3"};

}  // namespace

void add_data_fields(FieldList& list, DataConfig& data) {
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

void add_batch_fields(FieldList& list, BatchConfig& batch) {
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

void add_optim_fields(FieldList& list, OptimConfig& optim) {
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

void add_parallel_fields(FieldList& list, ParallelConfig& parallel) {
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
  list.add(
      "stage_layers", parallel.stage_layers, kLayout,
      "layers of each stage, in the order of the model, such as \"3,5\"; the last may be 0, which "
      "gives the head and the modules of multi-token prediction a stage of their own; empty: "
      "stages of equal cost");
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

void add_memory_fields(FieldList& list, MemoryConfig& memory) {
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

}  // namespace trireme
