#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "compile/run_plan.h"
#include "config/config_load.h"
#include "planner/make_plan.h"
#include "predict/predict.h"

namespace {

using namespace trireme;

// True if planning takes only milliseconds.
bool is_small(const RunConfig& config) {
  const ModelConfig& model = config.model;
  const ParallelConfig& parallel = config.parallel;
  const int64_t ranks = int64_t{1} * parallel.dp * parallel.tp * parallel.pp * parallel.cp;
  return model.preset.empty() && model.layers <= 8 && model.d_model <= 256 && model.d_ff <= 1024 &&
         model.vocab_size <= 1024 && model.seq_len <= 256 && model.experts <= 8 &&
         model.heads <= 16 && parallel.dp <= 4 && parallel.tp <= 4 && parallel.pp <= 4 &&
         parallel.cp <= 4 && ranks <= 8 && config.batch.global_sequences <= 32 &&
         config.batch.global_tokens <= 8192 && parallel.schedule != ScheduleKind::Auto;
}

}  // namespace

// From RUN.toml to a plan of all ranks: it is refused with a reason, or every rank has a program
// and a memory plan whose peak is within its arena.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<LoadedConfig> loaded = load_config_text(text, "run.toml", {});
  if (!loaded.ok() || !is_small(loaded->config)) return 0;
  const Result<RunPlan> plan = make_plan(loaded->config, {.memory_bytes = int64_t{1} << 34});
  if (!plan.ok()) {
    if (plan.error().message.empty()) std::abort();
    return 0;
  }
  int num_ranks = 0;
  for (const RankClass& alike : plan->classes) num_ranks += alike.num_ranks;
  if (num_ranks != plan->num_ranks()) std::abort();
  for (const RankPlan& rank : plan->pipeline) {
    if (rank.program.empty()) std::abort();
  }
  if (plan->arena_bytes() <= 0) std::abort();
  return 0;
}
