// Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM" (arXiv:2104.04473), table 1: weak scaling from 1.7 billion to a trillion parameters
// on Selene. Micro-batches and chunks are not in the table; they are those of the authors' script
// examples/academic_paper_scripts/sc21/run_table_1.sh in NVIDIA/Megatron-LM.

#include <fmt/format.h>

#include "reproduce/price_runs.h"
#include "reproduce/published_clusters.h"
#include "reproduce/tables.h"

namespace trireme {
namespace {

struct MegatronRow {
  const char* name;
  int64_t heads, d_model, layers;
  int tp, pp, dp;
  int64_t global_sequences, micro_sequences;
  int chunks;
  double tflops;  // of a device, recomputation counted
};

constexpr MegatronRow kMegatronRows[] = {
    {"1.7B", 24, 2304, 24, 1, 1, 32, 512, 16, 1, 137},
    {"3.6B", 32, 3072, 30, 2, 1, 32, 512, 16, 1, 138},
    {"7.5B", 32, 4096, 36, 4, 1, 32, 512, 16, 1, 142},
    {"18.4B", 48, 6144, 40, 8, 1, 32, 1024, 8, 1, 135},
    {"39.1B", 64, 8192, 48, 8, 2, 32, 1536, 4, 1, 138},
    {"76.1B", 80, 10240, 60, 8, 4, 32, 1792, 2, 3, 140},
    {"145.6B", 96, 12288, 80, 8, 8, 24, 2304, 2, 2, 148},
    {"310.1B", 128, 16384, 96, 8, 16, 15, 2160, 1, 2, 155},
    {"529.6B", 128, 20480, 105, 8, 35, 9, 2520, 1, 3, 163},
    {"1008B", 160, 25600, 128, 8, 64, 6, 3072, 1, 1, 163},
};

PublishedRun megatron_run(const MegatronRow& row) {
  PublishedRun run;
  run.row = fmt::format("{} on {}: tp {}, pp {} x {}, dp {}, micro {}", row.name,
                        row.tp * row.pp * row.dp, row.tp, row.pp, row.chunks, row.dp,
                        row.micro_sequences);
  run.model = {.layers = row.layers, .d_model = row.d_model, .heads = row.heads};
  run.parallel.tp = row.tp;
  run.parallel.pp = row.pp;
  run.parallel.dp = row.dp;
  run.parallel.bucket_bytes = kOneBucket;
  if (row.chunks > 1) {
    run.parallel.schedule = ScheduleKind::Interleaved;
    run.parallel.chunks = row.chunks;
  }
  run.recompute = Recompute::Full;
  run.practice = practice_of_megatron_2021();
  run.global_sequences = row.global_sequences;
  run.micro_sequences = row.micro_sequences;
  run.step_s = executed_flops(run) / run.num_ranks() / (row.tflops * 1e12);
  return run;
}

}  // namespace

std::vector<PublishedRun> megatron_t1_runs() {
  std::vector<PublishedRun> runs;
  for (const MegatronRow& row : kMegatronRows) runs.push_back(megatron_run(row));
  return runs;
}

Result<Reproduction> reproduce_megatron_t1() {
  Reproduction result;
  result.source = "Narayanan et al. 2021 (arXiv:2104.04473), table 1; DGX A100 80GB";
  result.notes = {
      "The paper prints TFLOP/s of a device; the measured step is the FLOPs of its equation 3 over "
      "that rate.",
      "The runs used fp16, which is priced as bf16: both take the same time.",
      "The runs are priced as Megatron-LM of 2021 executed them: gradients of 16 bits are added "
      "after every micro-batch and summed in one piece behind the backward pass, every sum over "
      "the tensor-parallel ranks is waited for, and these ranks share what a stage sends.",
  };
  TRIREME_TRY_DONE(price_runs({{megatron_t1_runs(), dgx_a100_80g()}}, result));
  return result;
}

}  // namespace trireme
