#include <fmt/format.h>

#include <string_view>

#include "base/check.h"
#include "reproduce/llm_foundry.h"
#include "reproduce/price_runs.h"
#include "reproduce/published_attention.h"
#include "reproduce/published_clusters.h"
#include "reproduce/tables.h"

namespace trireme {
namespace {

struct MptModel {
  const char* name;
  int64_t layers, d_model, heads;
};

// scripts/train/yamls/pretrain of the same repository.
constexpr MptModel kMptModels[] = {
    {"125m", 12, 768, 12}, {"350m", 24, 1024, 16}, {"760m", 24, 1536, 12},
    {"1b", 24, 2048, 16},  {"3b", 32, 2560, 20},   {"7b", 32, 4096, 32},
    {"13b", 40, 5120, 40}, {"30b", 48, 7168, 56},  {"70b", 80, 8192, 64},
};

GptShape mpt_shape(std::string_view name, int64_t seq_len) {
  for (const MptModel& model : kMptModels) {
    if (model.name != name) continue;
    return {.layers = model.layers,
            .d_model = model.d_model,
            .heads = model.heads,
            .seq_len = seq_len,
            .vocab_size = 50368,
            .dropout = 0.0};
  }
  TRIREME_CHECK(false, "no MPT model has this name");
  return {};
}

// The program as it ran on devices of 80 GB: PyTorch 2.1, whose recomputation stops early. A flat
// tensor holds the parameters of a block, so that the gradients are copied together (4 bytes), and
// made fp32 (6) and divided (8) before they are reduced. DecoupledAdamW of mosaicml/composer moves
// as many bytes as PyTorch's update, but tensor by tensor: eight kernels, three for the clipping
// of the gradient, and one for the number of the step, which the host reads.
TrainerPractice practice_of_fp32_sums() {
  TrainerPractice practice = practice_of(TrainerKind::Torchtitan);
  practice.runs_products_apart = false;  // one product makes queries, keys and values
  practice.grad_copy_bytes = 18.0;
  practice.update_launches = 12;
  use_triton_attention_on_a100(practice);
  return practice;
}

// The same with mixed_precision = PURE: gradients stay in bf16, are copied (4) and divided (4).
TrainerPractice practice_of_bf16_sums() {
  TrainerPractice practice = practice_of_fp32_sums();
  practice.grad_bytes = 2;
  practice.grad_copy_bytes = 8.0;
  return practice;
}

// Devices of 40 GB: PyTorch 1.13, which computes a whole block again, and gradients in bf16.
TrainerPractice practice_of_40g() {
  TrainerPractice practice = practice_of_bf16_sums();
  practice.stops_recompute_early = false;
  return practice;
}

// H100: as on devices of 80 GB.
TrainerPractice practice_of_h100() {
  TrainerPractice practice = practice_of_fp32_sums();
  use_triton_attention_on_h100(practice);
  return practice;
}

PublishedRun mpt_run(const LlmFoundryRow& row, const char* device,
                     const TrainerPractice& practice) {
  PublishedRun run;
  run.part = device;
  run.row = fmt::format("{} on {} {}: {} tokens, micro {} x {}{}", row.model, row.num_ranks, device,
                        row.seq_len, row.micro_sequences, row.num_microbatches,
                        row.recomputes ? ", full" : "");
  run.model = mpt_shape(row.model, row.seq_len);
  run.parallel.dp = row.num_ranks;
  run.parallel.zero = 3;
  run.practice = practice;
  run.recompute = row.recomputes ? Recompute::Full : Recompute::None;
  run.micro_sequences = row.micro_sequences;
  run.global_sequences = row.num_ranks * row.micro_sequences * row.num_microbatches;
  run.step_s = double(run.global_sequences * row.seq_len) / row.tokens_per_s;
  return run;
}

}  // namespace

std::vector<PublishedRun> llm_foundry_80g_runs() {
  std::vector<PublishedRun> runs;
  for (const LlmFoundryRow& row : llm_foundry_rows_80g()) {
    const bool is_pure = std::string_view(row.model) == "70b";
    runs.push_back(
        mpt_run(row, "80GB", is_pure ? practice_of_bf16_sums() : practice_of_fp32_sums()));
  }
  return runs;
}

std::vector<PublishedRun> llm_foundry_40g_runs() {
  std::vector<PublishedRun> runs;
  for (const LlmFoundryRow& row : llm_foundry_rows_40g()) {
    runs.push_back(mpt_run(row, "40GB", practice_of_40g()));
  }
  return runs;
}

std::vector<PublishedRun> llm_foundry_h100_runs() {
  std::vector<PublishedRun> runs;
  for (const LlmFoundryRow& row : llm_foundry_rows_h100()) {
    runs.push_back(mpt_run(row, "H100", practice_of_h100()));
  }
  return runs;
}

Result<Reproduction> reproduce_llm_foundry_a100() {
  Reproduction result;
  result.source =
      "mosaicml/llm-foundry, scripts/train/benchmarking/README.md: MPT with FSDP on A100";
  result.notes = {
      "The page prints tokens/s; the measured step is the tokens of a step over that rate.",
      "Runs with mixed_precision = PURE sum gradients in bf16, the others in fp32. PyTorch 2.1, "
      "with which the devices of 80 GB were measured, stops recomputing a block before its last "
      "product; PyTorch 1.13 does not.",
  };
  const std::vector<PublishedRun> of_80g = llm_foundry_80g_runs(), of_40g = llm_foundry_40g_runs();
  TRIREME_TRY_DONE(price_runs({{of_80g, dgx_a100_80g()}, {of_40g, dgx_a100_40g()}}, result));
  return result;
}

Result<Reproduction> reproduce_llm_foundry_h100() {
  Reproduction result;
  result.source =
      "mosaicml/llm-foundry, scripts/train/benchmarking/README.md (commit 061f2c7): MPT with FSDP "
      "on H100 in bf16";
  result.notes = {
      "The page prints tokens/s; the measured step is the tokens of a step over that rate.",
      "Attention is the first FlashAttention in Triton (attn_impl of submit_benchmarks.py). Its "
      "speed on H100 is not published: it is taken to be as far behind FlashAttention-2 as on "
      "A100.",
  };
  TRIREME_TRY_DONE(price_runs({{llm_foundry_h100_runs(), dgx_h100()}}, result));
  return result;
}

}  // namespace trireme
