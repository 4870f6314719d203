#include <fmt/format.h>

#include <string_view>

#include "base/check.h"
#include "reproduce/llm_foundry.h"
#include "reproduce/price_runs.h"
#include "reproduce/published_clusters.h"
#include "reproduce/tables.h"

namespace trireme {
namespace {

// The runs used the first FlashAttention, which reaches 25 to 40 % of the peak (Dao 2023,
// arXiv:2307.08691, section 1). The middle is taken.
constexpr double kFirstFlashAttentionShare = 0.325;

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

PublishedRun mpt_run(const LlmFoundryRow& row, const char* device) {
  PublishedRun run;
  run.part = device;
  run.row = fmt::format("{} on {} {}: {} tokens, micro {} x {}{}", row.model, row.num_ranks, device,
                        row.seq_len, row.micro_sequences, row.num_microbatches,
                        row.recomputes ? ", full" : "");
  run.model = mpt_shape(row.model, row.seq_len);
  run.parallel.dp = row.num_ranks;
  run.parallel.zero = 3;
  run.practice = practice_of(TrainerKind::Torchtitan);
  run.practice.attention_share = kFirstFlashAttentionShare;
  run.recompute = row.recomputes ? Recompute::Full : Recompute::None;
  run.micro_sequences = row.micro_sequences;
  run.global_sequences = row.num_ranks * row.micro_sequences * row.num_microbatches;
  run.step_s = double(run.global_sequences * row.seq_len) / row.tokens_per_s;
  return run;
}

}  // namespace

std::vector<PublishedRun> llm_foundry_80g_runs() {
  std::vector<PublishedRun> runs;
  for (const LlmFoundryRow& row : llm_foundry_rows_80g()) runs.push_back(mpt_run(row, "80GB"));
  return runs;
}

std::vector<PublishedRun> llm_foundry_40g_runs() {
  std::vector<PublishedRun> runs;
  for (const LlmFoundryRow& row : llm_foundry_rows_40g()) runs.push_back(mpt_run(row, "40GB"));
  return runs;
}

Result<Reproduction> reproduce_llm_foundry_a100() {
  Reproduction result;
  result.source =
      "mosaicml/llm-foundry, scripts/train/benchmarking/README.md: MPT with FSDP on A100";
  result.notes = {
      "The page prints tokens/s; the measured step is the tokens of a step over that rate.",
      "Runs with pure bf16 also sum gradients in bf16; ours always sum them in fp32.",
  };
  const std::vector<PublishedRun> of_80g = llm_foundry_80g_runs(), of_40g = llm_foundry_40g_runs();
  TRIREME_TRY_DONE(price_runs({{of_80g, dgx_a100_80g()}, {of_40g, dgx_a100_40g()}}, result));
  return result;
}

}  // namespace trireme
