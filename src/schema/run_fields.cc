#include "schema/field_list.h"

namespace trireme {

void add_run_fields(FieldList& list, RunSection& run) {
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

void add_precision_and_checkpoint_fields(FieldList& list, RunConfig& config) {
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
           "auto searches it too; no other run may use it; empty: a lost folder is made again");
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

void add_trace_fields(FieldList& list, TraceConfig& trace) {
  list.section("trace");
  list.add("first_step", trace.first_step, kSpeed, "first step that trace.rankR.json records");
  list.add("steps", trace.steps, kSpeed, "number of steps to record; 0: none");
  list.add("ranks", trace.ranks, kSpeed,
           "ranks such as \"3,17\" that the report shows in addition to the slowest and fastest "
           "ones, if there are more than 16 ranks");
}

}  // namespace trireme
