// foundation-model-stack/fms-fsdp, README.md: Llama 2 with PyTorch FSDP on 128 A100, whose nodes
// have 400 Gbit/s, and on 96 H100, whose nodes have 800 Gbit/s. Gradients are reduced in bf16.
// Small models are sharded inside nodes and compute nothing again, larger ones over all devices
// with full recomputation. None of these runs is compiled.

#include <fmt/format.h>

#include <span>

#include "reproduce/llama_shapes.h"
#include "reproduce/other_runs.h"
#include "reproduce/published_attention.h"

namespace trireme {
namespace {

struct FmsRow {
  const char* name;
  const GptShape& model;
  bool is_large;
  int64_t micro_sequences;
  double tokens_per_s;  // of a device
};

// Commit 0d31998 (21 February 2024).
constexpr FmsRow kFmsRowsOnA100[] = {{"7B", kLlama2_7b, false, 2, 3760},
                                     {"13B", kLlama2_13b, false, 1, 1700},
                                     {"34B", kLlama2_34b, true, 8, 772},
                                     {"70B", kLlama2_70b, true, 6, 380}};

// Commit 5e522b4 (13 March 2024). The 13B model there computes some of its layers again.
constexpr FmsRow kFmsRowsOnH100[] = {{"7B", kLlama2_7b, false, 2, 7500},
                                     {"34B", kLlama2_34b, true, 2, 1550},
                                     {"70B", kLlama2_70b, true, 2, 800}};

// PyTorch FSDP with flat parameters, and the layers of ibm-fms.
TrainerPractice practice_of_fms() {
  TrainerPractice practice = practice_of(TrainerKind::Torchtitan);
  practice.runs_norms_apart = true;  // LayerNormParameterized
  practice.grad_bytes = 2;
  practice.grad_copy_bytes = 8.0;  // as of MPT with gradients in bf16
  return practice;
}

std::vector<PublishedRun> fms_runs(std::span<const FmsRow> rows, const char* device, int num_ranks,
                                   const TrainerPractice& practice) {
  std::vector<PublishedRun> runs;
  for (const FmsRow& row : rows) {
    PublishedRun run;
    run.part = fmt::format("fms-fsdp {}", device);
    run.row = fmt::format("Llama 2 {} on {} {}: fms-fsdp, {}, micro {}", row.name, num_ranks,
                          device, row.is_large ? "FSDP, full" : "HSDP", row.micro_sequences);
    run.model = row.model;
    run.parallel.dp = num_ranks;
    run.parallel.zero = 3;
    if (!row.is_large) run.parallel.hsdp_shard = 8;
    if (row.is_large) run.recompute = Recompute::Full;
    run.practice = practice;
    run.micro_sequences = row.micro_sequences;
    run.global_sequences = num_ranks * row.micro_sequences;
    run.step_s = double(run.global_sequences * run.model.seq_len) / row.tokens_per_s / num_ranks;
    runs.push_back(run);
  }
  return runs;
}

}  // namespace

std::vector<PublishedRun> fms_runs_on_a100() {
  return fms_runs(kFmsRowsOnA100, "A100", 128, practice_of_fms());
}

std::vector<PublishedRun> fms_runs_on_h100() {
  TrainerPractice practice = practice_of_fms();
  use_flash_attention_2_on_h100(practice);
  return fms_runs(kFmsRowsOnH100, "H100", 96, practice);
}

}  // namespace trireme
