// pytorch/torchtitan: docs/performance.md (commit 1ea476e, April 2024, A100),
// benchmarks/llama3_h100_202412_torchtitan.md and asyncTP_llama3_h100_2025-06_torchtitan.md. Tokens
// per second and device of Llama 2 and 3 with FSDP2, in bf16.

#include <fmt/format.h>

#include <string>

#include "reproduce/llama_shapes.h"
#include "reproduce/price_runs.h"
#include "reproduce/published_attention.h"
#include "reproduce/published_clusters.h"
#include "reproduce/tables.h"

namespace trireme {
namespace {

// Which kernels ran: those of torch.compile, or one for every operation with a norm that is one
// kernel ("fused_rmsnorm") or several ("rmsnorm"), as the configuration of the model says.
enum class Kernels { Compiled, Apart, NormsApart };

struct TorchtitanRow {
  const char* name;
  const GptShape& model;
  int num_ranks, tp;
  int64_t micro_sequences;
  Recompute recompute;
  Kernels kernels;
  double tokens_per_s;  // of a device
};

constexpr TorchtitanRow kA100Rows[] = {
    {"Llama 3 8B", kLlama3_8b, 64, 1, 1, Recompute::Selective, Kernels::Apart, 2973},
    {"Llama 3 70B", kLlama3_70b, 64, 1, 1, Recompute::Full, Kernels::NormsApart, 331},
    {"Llama 2 13B", kLlama2_13b, 64, 1, 2, Recompute::None, Kernels::Apart, 2162},
    {"Llama 2 13B", kLlama2_13b, 64, 1, 2, Recompute::Selective, Kernels::Apart, 1904},
    {"Llama 2 70B", kLlama2_70b, 64, 1, 1, Recompute::Selective, Kernels::NormsApart, 355},
    {"Llama 2 70B", kLlama2_70b, 64, 1, 2, Recompute::Full, Kernels::NormsApart, 353},
};

constexpr TorchtitanRow kH100Rows[] = {
    {"Llama 3.1 8B", kLlama3_8b, 8, 1, 2, Recompute::Selective, Kernels::NormsApart, 5762},
    {"Llama 3.1 8B", kLlama3_8b, 8, 1, 2, Recompute::Selective, Kernels::Compiled, 6667},
    {"Llama 3.1 8B", kLlama3_8b, 128, 1, 2, Recompute::Selective, Kernels::NormsApart, 5605},
    {"Llama 3.1 8B", kLlama3_8b, 128, 1, 2, Recompute::Selective, Kernels::Compiled, 6514},
    {"Llama 3.1 8B", kLlama3_8b, 64, 8, 12, Recompute::Selective, Kernels::Compiled, 4378},
    {"Llama 3.1 70B", kLlama3_70b, 256, 8, 16, Recompute::Full, Kernels::Compiled, 597.3},
};

TrainerPractice practice_of_kernels(Kernels kernels) {
  TrainerPractice practice = practice_of(TrainerKind::Torchtitan);
  practice.runs_ops_apart = kernels != Kernels::Compiled;
  practice.runs_norms_apart = kernels == Kernels::NormsApart;
  return practice;
}

PublishedRun torchtitan_run(const TorchtitanRow& row, const char* device) {
  PublishedRun run;
  run.part = device;
  run.row = fmt::format("{} on {} {}: tp {}, micro {}{}{}", row.name, row.num_ranks, device, row.tp,
                        row.micro_sequences,
                        row.recompute == Recompute::Full        ? ", full"
                        : row.recompute == Recompute::Selective ? ", selective"
                                                                : "",
                        row.kernels == Kernels::Compiled ? ", compiled" : "");
  run.model = row.model;
  run.parallel.tp = row.tp;
  run.parallel.dp = row.num_ranks / row.tp;
  run.parallel.sequence = row.tp > 1;
  run.parallel.zero = 3;
  run.practice = practice_of_kernels(row.kernels);
  run.recompute = row.recompute;
  run.micro_sequences = row.micro_sequences;
  run.global_sequences = row.micro_sequences * run.parallel.dp;
  run.step_s = double(run.global_sequences * row.model.seq_len) / row.tokens_per_s / row.num_ranks;
  return run;
}

}  // namespace

std::vector<PublishedRun> torchtitan_a100_runs() {
  std::vector<PublishedRun> runs;
  for (const TorchtitanRow& row : kA100Rows) runs.push_back(torchtitan_run(row, "A100"));
  return runs;
}

std::vector<PublishedRun> torchtitan_h100_runs() {
  std::vector<PublishedRun> runs;
  for (const TorchtitanRow& row : kH100Rows) {
    runs.push_back(torchtitan_run(row, "H100"));
    use_flash_attention_2_on_h100(runs.back().practice);
  }
  return runs;
}

Result<Reproduction> reproduce_torchtitan_llama() {
  Reproduction result;
  result.source = "pytorch/torchtitan, docs/performance.md and benchmarks/: Llama with FSDP2";
  result.notes = {
      "The page prints tokens/s of a device; the measured step is the tokens of a step over that "
      "rate. Rows with fp8, with every second layer recomputed, or with pipelines are left out.",
      "Selective recomputation makes every second product and everything beside products and "
      "attention again (the policy \"op\"). Runs without torch.compile pay for a kernel of each "
      "operation.",
      "The H100 have HBM2e (2.4 TB/s) and a limit of 500 W, under which products reach 0.6 of the "
      "peak of 989 TFLOP/s (pytorch/ao, roofline_utils.py).",
  };
  const std::vector<PublishedRun> on_a100 = torchtitan_a100_runs(),
                                  on_h100 = torchtitan_h100_runs();
  TRIREME_TRY_DONE(price_runs({{on_a100, dgx_a100_80g()}, {on_h100, h100_hbm2e()}}, result));
  return result;
}

}  // namespace trireme
