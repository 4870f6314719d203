#include "agent/epoch_layout.h"

#include <fmt/format.h>

#include "schema/batch.h"
#include "schema/mesh.h"

namespace trireme {
namespace {

constexpr int32_t kMostChunks = 1 << 16;
constexpr int32_t kMostLanes = 1 << 24;
constexpr int64_t kMostSequences = int64_t{1} << 31;

template <typename Number>
bool is_within(Number value, Number least, Number most) {
  return value >= least && value <= most;
}

}  // namespace

EpochLayout epoch_layout_of(const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  const Mesh mesh = mesh_of(parallel);
  return {.dp = parallel.dp,
          .tp = parallel.tp,
          .pp = parallel.pp,
          .cp = parallel.cp,
          .zero = parallel.zero,
          .hsdp_shard = parallel.hsdp_shard,
          .chunks = parallel.chunks,
          .schedule = parallel.schedule,
          .recompute = config.memory.recompute,
          .sequence = uint8_t(parallel.sequence),
          .tp_overlap = uint8_t(parallel.tp_overlap),
          .uneven_ranks = mesh.is_uneven() ? mesh.size() : 0,
          .global_sequences = sequences_of_step(config)};
}

RunConfig with_epoch_layout(RunConfig config, const EpochLayout& layout) {
  ParallelConfig& parallel = config.parallel;
  parallel.dp = layout.dp;
  parallel.tp = layout.tp;
  parallel.pp = layout.pp;
  parallel.cp = layout.cp;
  parallel.zero = layout.zero;
  parallel.hsdp_shard = layout.hsdp_shard;
  parallel.chunks = layout.chunks;
  parallel.schedule = layout.schedule;
  parallel.sequence = layout.sequence != 0;
  parallel.tp_overlap = layout.tp_overlap != 0;
  config.memory.recompute = layout.recompute;
  if (layout.uneven_ranks == 0) {
    parallel.stage_tp.clear();
    parallel.stage_dp.clear();
  }
  if (sequences_of_step(config) != layout.global_sequences) {
    config.batch.global_sequences = layout.global_sequences;
  }
  return config;
}

bool is_possible(const EpochLayout& layout, int num_ranks) {
  const bool is_uneven = layout.uneven_ranks != 0;
  int64_t product = 1;  // if uneven, of a pipeline whose places have one rank along tp and dp
  for (const int32_t degree :
       {is_uneven ? 1 : layout.dp, is_uneven ? 1 : layout.tp, layout.pp, layout.cp}) {
    if (!is_within(degree, 1, num_ranks)) return false;
    product *= degree;
    if (product > num_ranks) return false;
  }
  const bool has_ranks = is_uneven ? layout.uneven_ranks == num_ranks : product == num_ranks;
  return has_ranks && is_within(layout.dp, 1, kMostLanes) && is_within(layout.tp, 1, kMostLanes) &&
         is_within(layout.zero, 0, 3) && is_within(layout.hsdp_shard, 0, layout.dp) &&
         is_within(layout.chunks, 0, kMostChunks) &&
         layout.schedule <= ChoiceTable<ScheduleKind>::last &&
         layout.recompute <= ChoiceTable<Recompute>::last && layout.sequence <= 1 &&
         layout.tp_overlap <= 1 && is_within(layout.global_sequences, int64_t{1}, kMostSequences);
}

std::string text_of(const EpochLayout& layout) {
  std::string text = fmt::format("dp={}", layout.dp);
  const auto add = [&](const char* key, const auto& value) {
    text += fmt::format(" {}={}", key, value);
  };
  if (layout.tp > 1) add("tp", layout.tp);
  if (layout.pp > 1) add("pp", layout.pp);
  if (layout.cp > 1) add("cp", layout.cp);
  if (layout.zero > 0) add("zero", layout.zero);
  if (layout.hsdp_shard > 0) add("hsdp_shard", layout.hsdp_shard);
  if (layout.pp > 1) add("schedule", name_of(layout.schedule));
  if (layout.chunks > 0) add("chunks", layout.chunks);
  if (layout.uneven_ranks > 0) add("ranks", layout.uneven_ranks);
  if (layout.sequence != 0) add("sequence", true);
  if (layout.tp_overlap != 0) add("tp_overlap", true);
  if (layout.recompute != Recompute::None) add("recompute", name_of(layout.recompute));
  return text;
}

}  // namespace trireme
