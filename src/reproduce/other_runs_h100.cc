#include <fmt/format.h>

#include "reproduce/llama_shapes.h"
#include "reproduce/other_runs.h"

namespace trireme {
namespace {

// Nemotron-4 has two matrices in its MLP, a head of its own, and rotary positions; it is priced
// with learned ones.
constexpr GptShape kNemotron4_15b{.layers = 32,
                                  .d_model = 6144,
                                  .heads = 48,
                                  .seq_len = 4096,
                                  .vocab_size = 256000,
                                  .dropout = 0.0,
                                  .kv_heads = 8,
                                  .unties_head = true};
constexpr GptShape kNemotron4_340b{.layers = 96,
                                   .d_model = 18432,
                                   .heads = 96,
                                   .seq_len = 4096,
                                   .vocab_size = 256000,
                                   .dropout = 0.0,
                                   .kv_heads = 8,
                                   .unties_head = true};

// NVIDIA/dgxc-benchmarking (commits 143b90d and 0b71cfd): llama3.1/README_8b, _70b and _405b.md,
// nemotron/README_15b and _340b.md. Seconds of a step in bf16 with NeMo on DGX H100.
struct MegatronCoreRow {
  const char* name;
  const GptShape& model;
  int num_ranks, tp, pp, cp, chunks;
  int64_t micro_sequences, num_microbatches;
  double step_s;
  Recompute recompute = Recompute::None;
};

constexpr MegatronCoreRow kMegatronCoreRows[] = {
    {"Llama 3.1 8B", kLlama3_8b, 8, 1, 1, 2, 1, 1, 32, 12.91},
    {"Llama 3.1 8B", kLlama3_8b, 128, 1, 1, 2, 1, 1, 32, 13.10},
    {"Llama 3.1 70B", kLlama3_70b, 64, 4, 4, 2, 5, 1, 64, 14.72},
    {"Llama 3.1 70B", kLlama3_70b, 2048, 4, 4, 2, 5, 1, 64, 14.98},
    {"Llama 3.1 405B", kLlama3_405b, 576, 8, 9, 2, 7, 1, 63, 17.20},
    {"Llama 3.1 405B", kLlama3_405b, 2304, 8, 9, 2, 7, 1, 63, 17.62},
    {"Nemotron-4 15B", kNemotron4_15b, 16, 4, 1, 1, 1, 4, 4, 2.812},
    {"Nemotron-4 15B", kNemotron4_15b, 2048, 4, 1, 1, 1, 4, 4, 2.887},
    {"Nemotron-4 340B", kNemotron4_340b, 128, 8, 8, 1, 12, 1, 16, 4.61, Recompute::Selective},
    {"Nemotron-4 340B", kNemotron4_340b, 2048, 8, 8, 1, 12, 1, 16, 4.84, Recompute::Selective},
};

PublishedRun megatron_core_run(const MegatronCoreRow& row) {
  PublishedRun run;
  run.part = "Megatron-Core";
  run.row = fmt::format("{} on {} H100: Megatron-Core, tp {}, pp {} x {}, cp {}", row.name,
                        row.num_ranks, row.tp, row.pp, row.chunks, row.cp);
  run.model = row.model;
  run.parallel.tp = row.tp;
  run.parallel.pp = row.pp;
  run.parallel.cp = row.cp;
  run.parallel.dp = row.num_ranks / (row.tp * row.pp * row.cp);
  run.parallel.order = "tp,cp,dp,pp";
  if (row.chunks > 1) {
    run.parallel.schedule = ScheduleKind::Interleaved;
    run.parallel.chunks = row.chunks;
  }
  run.parallel.sequence = run.parallel.tp_overlap = row.tp > 1;
  run.parallel.zero = 1;
  run.recompute = row.recompute;
  run.practice = practice_of(TrainerKind::Megatron);
  run.micro_sequences = row.micro_sequences;
  run.global_sequences = row.micro_sequences * row.num_microbatches * run.parallel.dp;
  run.step_s = row.step_s;
  return run;
}

}  // namespace

std::vector<PublishedRun> other_runs_on_h100() {
  std::vector<PublishedRun> runs;
  for (const MegatronCoreRow& row : kMegatronCoreRows) runs.push_back(megatron_core_run(row));
  return runs;
}

}  // namespace trireme
