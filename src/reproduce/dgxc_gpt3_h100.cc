// NVIDIA/dgxc-benchmarking, nemo_megatron/README_175b.md (commit 0b71cfd, December 2024): seconds
// of a step of GPT-3 175B in bf16 with NeMo and Megatron-Core on DGX H100; tp 4, pp 8 with 12
// chunks, micro-batches of one sequence of 2,048 tokens, 64 of them for each pipeline.

#include <fmt/format.h>

#include "reproduce/price_runs.h"
#include "reproduce/published_clusters.h"
#include "reproduce/tables.h"

namespace trireme {
namespace {

constexpr int kDgxcTp = 4, kDgxcPp = 8, kDgxcChunks = 12;
constexpr int64_t kDgxcMicrobatches = 64;

struct DgxcRow {
  int num_ranks;
  double step_s;
};
constexpr DgxcRow kDgxcRows[] = {
    {128, 8.309}, {256, 8.408}, {512, 8.42}, {1024, 8.453}, {2048, 8.49}};

PublishedRun dgxc_run(const DgxcRow& row) {
  PublishedRun run;
  run.row = fmt::format("175B on {}", row.num_ranks);
  run.model = {.layers = 96, .d_model = 12288, .heads = 96, .dropout = 0.0};
  run.parallel.tp = kDgxcTp;
  run.parallel.pp = kDgxcPp;
  run.parallel.dp = row.num_ranks / (kDgxcTp * kDgxcPp);
  run.parallel.order = "tp,cp,dp,pp";
  run.parallel.schedule = ScheduleKind::Interleaved;
  run.parallel.chunks = kDgxcChunks;
  run.parallel.sequence = true;
  run.parallel.tp_overlap = true;
  run.parallel.zero = 1;
  run.practice = practice_of(TrainerKind::Megatron);
  run.micro_sequences = 1;
  run.global_sequences = kDgxcMicrobatches * run.parallel.dp;
  run.step_s = row.step_s;
  return run;
}

}  // namespace

std::vector<PublishedRun> dgxc_gpt3_h100_runs() {
  std::vector<PublishedRun> runs;
  for (const DgxcRow& row : kDgxcRows) runs.push_back(dgxc_run(row));
  return runs;
}

Result<Reproduction> reproduce_dgxc_gpt3_h100() {
  Reproduction result;
  result.source = "NVIDIA/dgxc-benchmarking, nemo_megatron/README_175b.md: bf16 on DGX H100";
  result.notes = {
      "The runs are priced as Megatron-Core executes them, with sequence parallelism, overlapped "
      "tensor parallelism and the distributed optimizer, which the recipe switches on.",
  };
  TRIREME_TRY_DONE(price_runs({{dgxc_gpt3_h100_runs(), dgx_h100()}}, result));
  return result;
}

}  // namespace trireme
