#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schema/run_config.h"
#include "schema/trainer_practice.h"

namespace trireme {

// A decoder of the GPT family as the papers state it: d_ff = 4 d_model, learned positions, a head
// that shares the embedding's table, unless it says otherwise. With d_ff it is a Llama: SwiGLU,
// rotary positions, kv_heads, and a head with a table of its own.
struct GptShape {
  int64_t layers = 0;
  int64_t d_model = 0;
  int64_t heads = 0;
  int64_t seq_len = 2048;
  int64_t vocab_size = 51200;
  double dropout = 0.1;
  int64_t d_ff = 0;
  int64_t kv_heads = 0;

  bool unties_head = false;  // of a GPT
  bool is_llama() const { return d_ff > 0; }
};

// parallel.bucket_bytes of a run that sums all its gradients at once, behind the backward pass.
inline constexpr int64_t kOneBucket = int64_t{1} << 50;

// One published training run: its model, layout and batch, and the time of its step.
struct PublishedRun {
  std::string row;   // what the printed row is called
  std::string part;  // rows of one part are also summed up by themselves; "": none
  GptShape model;
  ParallelConfig parallel;
  Recompute recompute = Recompute::None;
  TrainerPractice practice;  // of the program that ran it
  int64_t global_sequences = 0;
  int64_t micro_sequences = 0;
  double step_s = 0.0;      // measured
  double memory_gib = 0.0;  // measured, greatest of all ranks; 0: not published
  // [stage]; empty: all stages have the same number of layers.
  std::vector<int64_t> layers_of_stage = {};
  bool post_validates = false;  // ranks update before the global norm is known
  int64_t max_live = 0;  // for the schedule "auto": micro-batches alive on a rank; 0: any number

  int num_ranks() const { return parallel.tp * parallel.pp * parallel.dp * parallel.cp; }
};

// Returns the run as a configuration that can be planned. Its numbers have 16 bits (bf16), also
// where the publication used fp16: both take the same time and memory.
RunConfig config_of(const PublishedRun& run);

// Returns the layers of each stage of the run.
std::vector<int64_t> layers_of_stages(const PublishedRun& run);

// Returns the FLOPs of one step that the devices execute, recomputation included. They count full
// attention, as the papers do: 96 B L s h^2 (1 + s / 6h + V / 16Lh) with full recomputation.
double executed_flops(const PublishedRun& run);

// Returns the same without recomputation: 72 B L s h^2 (1 + s / 6h + V / 12Lh).
double model_flops(const PublishedRun& run);

}  // namespace trireme
