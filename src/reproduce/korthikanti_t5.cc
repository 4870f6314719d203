// Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models"
// (arXiv:2205.05198): table 3 has the models and layouts, table 5 the times of an iteration, with
// full recomputation and with sequence parallelism and selective recomputation ("present work").

#include <fmt/format.h>

#include "reproduce/price_runs.h"
#include "reproduce/published_clusters.h"
#include "reproduce/tables.h"
#include "schema/earlier_megatron.h"

namespace trireme {
namespace {

struct KorthikantiRow {
  const char* name;
  int64_t heads, d_model, layers;
  int pp, chunks;
  int64_t global_sequences, micro_sequences;
  double full_s, selective_s;
};

constexpr int kKorthikantiTp = 8;

constexpr KorthikantiRow kKorthikantiRows[] = {
    {"22B", 64, 6144, 48, 1, 1, 4, 4, 1.42, 1.10},
    {"175B", 96, 12288, 96, 8, 3, 64, 1, 18.13, 13.75},
    {"530B", 128, 20480, 105, 35, 3, 280, 1, 49.05, 37.83},
    {"1T", 160, 25600, 128, 64, 1, 512, 1, 94.42, 71.49},
};

PublishedRun korthikanti_run(const KorthikantiRow& row, bool is_present_work) {
  PublishedRun run;
  run.row = fmt::format("{} on {}: pp {} x {}, {}", row.name, kKorthikantiTp * row.pp, row.pp,
                        row.chunks, is_present_work ? "selective + sequence" : "full");
  run.model = {.layers = row.layers, .d_model = row.d_model, .heads = row.heads};
  run.parallel.tp = kKorthikantiTp;
  run.parallel.pp = row.pp;
  if (row.chunks > 1) {
    run.parallel.schedule = ScheduleKind::Interleaved;
    run.parallel.chunks = row.chunks;
  }
  run.parallel.sequence = is_present_work;
  run.practice = practice_of_megatron_2022();
  run.recompute = is_present_work ? Recompute::Selective : Recompute::Full;
  run.global_sequences = row.global_sequences;
  run.micro_sequences = row.micro_sequences;
  run.step_s = is_present_work ? row.selective_s : row.full_s;
  return run;
}

}  // namespace

std::vector<PublishedRun> korthikanti_t5_runs() {
  std::vector<PublishedRun> runs;
  for (const KorthikantiRow& row : kKorthikantiRows) {
    for (const bool is_present_work : {false, true})
      runs.push_back(korthikanti_run(row, is_present_work));
  }
  return runs;
}

Result<Reproduction> reproduce_korthikanti_t5() {
  Reproduction result;
  result.source = "Korthikanti et al. 2022 (arXiv:2205.05198), tables 3 and 5; DGX A100 80GB";
  result.notes = {
      "The paper's selective recomputation repeats the scores of attention, which it stores "
      "otherwise; ours never stores scores and repeats norms and activation functions.",
  };
  TRIREME_TRY_DONE(price_runs({{korthikanti_t5_runs(), dgx_a100_80g()}}, result));
  return result;
}

}  // namespace trireme
