#include <fmt/format.h>

#include "reproduce/llama_shapes.h"
#include "reproduce/other_runs.h"

namespace trireme {
namespace {

// Smith et al. 2022 (arXiv:2201.11990), section 2.3: Megatron-Turing NLG 530B on DGX A100 of 80 GB.
struct TuringRow {
  int dp;
  double step_s;
};
constexpr TuringRow kTuringRows[] = {{8, 60.1}, {10, 50.2}, {12, 44.4}};

PublishedRun turing_run(const TuringRow& row) {
  PublishedRun run;
  run.part = "Megatron-DeepSpeed";
  run.model = {.layers = 105, .d_model = 20480, .heads = 128};
  run.parallel.tp = 8;
  run.parallel.pp = 35;
  run.parallel.dp = row.dp;
  run.parallel.zero = 1;
  run.parallel.bucket_bytes = kOneBucket;
  run.recompute = Recompute::Full;
  run.practice = practice_of(TrainerKind::DeepSpeed);
  run.micro_sequences = 1;
  run.global_sequences = 1920;
  run.step_s = row.step_s;
  run.row = fmt::format("MT-NLG 530B on {} A100: tp 8, pp 35, dp {}", run.num_ranks(), row.dp);
  return run;
}

// bigscience-workshop/bigscience, train/tr11-176B-ml/chronicles-prequel.md (commit 053adaf),
// "GBS Variations": a model of 181 billion parameters on 48 nodes of Jean Zay, layouts that were
// measured on the way to BLOOM on 25 February 2022, with fp16 and ZeRO 1, and with the dropout of
// Megatron-LM (README.md beside it). On more than 320 devices its runs hung unless the host waited
// for every kernel (CUDA_LAUNCH_BLOCKING=1).
struct BloomRow {
  int dp, tp, pp;
  int64_t micro_sequences, global_sequences;
  double step_s;
};
constexpr BloomRow kBloomRows[] = {
    {8, 8, 6, 4, 1568, 113.01},  {8, 8, 6, 4, 2048, 114.11},   {8, 8, 6, 6, 2016, 123.57},
    {4, 8, 12, 4, 1568, 92.75},  {4, 8, 12, 4, 2048, 117.07},  {4, 8, 12, 2, 1568, 99.93},
    {4, 8, 12, 2, 2048, 128.82}, {6, 8, 8, 4, 2016, 113.16},   {12, 8, 4, 2, 2016, 125.52},
    {12, 8, 4, 4, 2016, 114.81}, {24, 8, 2, 1, 2016, 145.45},  {24, 8, 2, 2, 2016, 136.13},
    {8, 4, 12, 4, 2048, 111.89}, {8, 4, 12, 2, 2048, 110.48},  {16, 4, 6, 4, 2048, 117.11},
    {16, 4, 6, 2, 2048, 111.71}, {16, 2, 12, 2, 2048, 112.50}, {8, 2, 24, 1, 2048, 119.53},
    {8, 2, 24, 2, 2048, 122.75}, {4, 4, 24, 1, 2048, 130.60},
};

PublishedRun bloom_run(const BloomRow& row) {
  PublishedRun run;
  run.part = "BLOOM";
  run.model = {.layers = 72, .d_model = 14336, .heads = 64, .seq_len = 2048, .vocab_size = 250880};
  run.parallel.tp = row.tp;
  run.parallel.pp = row.pp;
  run.parallel.dp = row.dp;
  run.parallel.zero = 1;
  run.parallel.bucket_bytes = kOneBucket;
  run.recompute = Recompute::Full;
  run.practice = practice_of(TrainerKind::DeepSpeed);
  run.practice.blocks_on_launches = true;
  run.micro_sequences = row.micro_sequences;
  run.global_sequences = row.global_sequences;
  run.step_s = row.step_s;
  run.row =
      fmt::format("BLOOM 181B on {} A100: tp {}, pp {}, dp {}, micro {} of {}", run.num_ranks(),
                  row.tp, row.pp, row.dp, row.micro_sequences, row.global_sequences);
  return run;
}

// Black et al. 2022 (arXiv:2204.06745), sections 2.2 and 2.3: GPT-NeoX-20B on twelve nodes of eight
// A100 of 40 GB, 117 TFLOP/s of a device by gpt-neox's count: six FLOPs of a parameter and token,
// and those of attention, without recomputation. Attention and MLP stand beside each other and
// positions are rotary there; it is priced as a GPT.
PublishedRun neox_run() {
  PublishedRun run;
  run.part = "GPT-NeoX";
  run.row = "GPT-NeoX 20B on 96 A100: tp 2, pp 4, dp 12, micro 4";
  run.model = {.layers = 44,
               .d_model = 6144,
               .heads = 64,
               .seq_len = 2048,
               .vocab_size = 50432,
               .dropout = 0.0,
               .unties_head = true};
  run.parallel.tp = 2;
  run.parallel.pp = 4;
  run.parallel.dp = 12;
  run.parallel.zero = 1;
  run.parallel.bucket_bytes = kOneBucket;
  run.recompute = Recompute::Full;
  run.practice = practice_of(TrainerKind::DeepSpeed);
  run.micro_sequences = 4;
  run.global_sequences = 1536;
  constexpr double kParams = 20556201984.0, kLayers = 44.0, kWidth = 6144.0, kTokens = 2048.0;
  const double token_flops = 6.0 * kParams + 60.0 * kTokens * kWidth * kLayers;
  run.step_s = double(run.global_sequences) * kTokens * token_flops / run.num_ranks() / 117e12;
  return run;
}

}  // namespace

std::vector<PublishedRun> other_runs_on_a100() {
  std::vector<PublishedRun> runs;
  for (const TuringRow& row : kTuringRows) runs.push_back(turing_run(row));
  return runs;
}

std::vector<PublishedRun> other_runs_on_a100_of_100_gbit() {
  std::vector<PublishedRun> runs;
  for (const BloomRow& row : kBloomRows) runs.push_back(bloom_run(row));
  for (const PublishedRun& run : fms_runs_on_a100()) runs.push_back(run);
  return runs;
}

std::vector<PublishedRun> other_runs_on_a100_40g() { return {neox_run()}; }

}  // namespace trireme
