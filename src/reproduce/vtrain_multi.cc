// Bang et al. 2024, "vTrain" (arXiv:2312.12391): iteration times that its authors measured with
// Megatron-DeepSpeed on 64 and 512 A100 80GB, four 200 Gbit/s adapters to eight devices. File
// data/ground_truth_multi.csv of VIA-Research/vTrain (MIT licence).

#include <fmt/format.h>

#include <span>

#include "reproduce/price_runs.h"
#include "reproduce/published_clusters.h"
#include "reproduce/tables.h"

namespace trireme {
namespace {

struct VtrainModel {
  const char* name;
  GptShape shape;
  int num_ranks;
  int64_t global_sequences;
};

struct VtrainRow {
  int64_t micro_sequences;
  int tp, pp;  // the rest of the ranks is dp
  double step_ms;
};

constexpr VtrainModel kVtrain3B = {"3.6B", {.layers = 30, .d_model = 3072, .heads = 32}, 64, 512};

constexpr VtrainRow kVtrain3BRows[] = {
    {8, 1, 1, 3566.5},   {4, 1, 1, 3638.3},    {8, 2, 1, 3975.2},    {2, 1, 1, 3700.5},
    {16, 2, 1, 3937.5},  {4, 2, 1, 4078.2},    {2, 2, 1, 4264.2},    {16, 4, 1, 4492.1},
    {32, 4, 1, 4548.2},  {8, 4, 1, 4634.4},    {4, 4, 1, 4764},      {4, 1, 2, 4382.1},
    {2, 1, 2, 4034.9},   {2, 4, 1, 6228.3},    {8, 1, 2, 5045.6},    {64, 8, 1, 9838.9},
    {32, 8, 1, 4972.3},  {16, 8, 1, 5017.8},   {8, 8, 1, 5178},      {4, 8, 1, 5618},
    {2, 8, 1, 8880.9},   {32, 16, 1, 10580.6}, {16, 16, 1, 10719.3}, {8, 16, 1, 10894},
    {4, 16, 1, 11960.1}, {2, 16, 1, 13472.2},
};

constexpr VtrainModel kVtrain39B = {
    "39.1B", {.layers = 48, .d_model = 8192, .heads = 64}, 512, 1536};

constexpr VtrainRow kVtrain39BRows[] = {
    {2, 2, 8, 21890.4},   {2, 4, 4, 13875.5},  {2, 2, 16, 23747.9},  {3, 4, 4, 16185.5},
    {4, 4, 4, 15625.6},   {2, 4, 8, 16070.6},  {3, 2, 8, 19067.2},   {3, 4, 8, 17606.1},
    {2, 4, 16, 14529.6},  {3, 2, 16, 26188.8}, {4, 4, 8, 17413.6},   {6, 4, 4, 18532.1},
    {6, 8, 2, 14915.5},   {8, 8, 2, 15212.8},  {4, 8, 2, 14757.3},   {12, 8, 2, 17126.8},
    {3, 8, 2, 14850.4},   {3, 4, 16, 15023.9}, {2, 8, 2, 14614},     {4, 4, 16, 15585.5},
    {2, 8, 4, 14713.4},   {6, 4, 8, 16087},    {3, 8, 4, 14833.8},   {4, 8, 4, 14750.7},
    {6, 8, 4, 15249.4},   {2, 8, 8, 15001.9},  {8, 8, 4, 15814.5},   {3, 8, 8, 15270.7},
    {4, 8, 8, 14967.1},   {6, 4, 16, 20044.1}, {6, 8, 8, 15775.3},   {12, 8, 4, 17182.4},
    {3, 1, 16, 19991},    {2, 8, 16, 15639.4}, {6, 2, 8, 23062.9},   {3, 8, 16, 16360.8},
    {8, 8, 8, 16413.4},   {4, 8, 16, 15944.5}, {6, 8, 16, 16232.8},  {6, 2, 16, 27228.4},
    {12, 8, 8, 17999.5},  {12, 4, 8, 20614.8}, {8, 8, 16, 16877.1},  {12, 8, 16, 18568.3},
    {12, 4, 16, 27810.3}, {24, 8, 8, 23171.1}, {24, 8, 16, 24169.9},
};

PublishedRun vtrain_run(const VtrainModel& model, const VtrainRow& row) {
  PublishedRun run;
  run.part = model.name;
  run.model = model.shape;
  run.parallel.tp = row.tp;
  run.parallel.pp = row.pp;
  run.parallel.dp = model.num_ranks / (row.tp * row.pp);
  run.parallel.bucket_bytes = kOneBucket;
  run.recompute = Recompute::Full;
  run.practice = practice_of(TrainerKind::DeepSpeed);
  run.global_sequences = model.global_sequences;
  run.micro_sequences = row.micro_sequences;
  run.step_s = row.step_ms * 1e-3;
  run.row = fmt::format("{} on {}: tp {}, pp {}, dp {}, micro {}", model.name, model.num_ranks,
                        row.tp, row.pp, run.parallel.dp, row.micro_sequences);
  return run;
}

}  // namespace

std::vector<PublishedRun> vtrain_multi_runs() {
  std::vector<PublishedRun> runs;
  for (const VtrainRow& row : kVtrain3BRows) runs.push_back(vtrain_run(kVtrain3B, row));
  for (const VtrainRow& row : kVtrain39BRows) runs.push_back(vtrain_run(kVtrain39B, row));
  return runs;
}

Result<Reproduction> reproduce_vtrain_multi() {
  Reproduction result;
  result.source =
      "Bang et al. 2024 (arXiv:2312.12391), data/ground_truth_multi.csv of VIA-Research/vTrain";
  result.compares_layouts = true;
  result.notes = {
      "The measured runs sum all gradients at once behind the backward pass; ours do, too "
      "(parallel.bucket_bytes).",
      "The last stage of the measured runs does not recompute; ours does, as all others.",
  };
  TRIREME_TRY_DONE(price_runs({{vtrain_multi_runs(), a100_80g_of_half_the_adapters()}}, result));
  return result;
}

}  // namespace trireme
