#include "predict/predict_offload.h"

#include <map>
#include <utility>

#include "predict/action_times.h"
#include "predict/action_traffic.h"

namespace trireme {
namespace {

double elements_of(const OffloadPiece& piece) {
  double elements = 0.0;
  for (const OffloadRun& run : piece.runs) elements += double(run.count);
  return elements;
}

}  // namespace

OffloadTimes predict_offload(const RunPlan& plan, const RankPlan& rank, const UnitPrices& prices,
                             const Hardware& hardware) {
  const bool has_file = plan.config.memory.offload != OffloadChoice::None;
  if (!has_file || hardware.offload_bytes_per_s <= 0.0) return {};
  ActionTimes times(rank, prices);
  const auto compute_s = [&](const Action& action) {
    if (action.kind != ActionKind::StepPiece) return times.seconds(action);
    const ChunkTables& chunk = rank.chunks[size_t(action.chunk)];
    const OffloadPiece& piece = chunk.pieces[size_t(action.microbatch)];
    return price_update(elements_of(piece), plan.shape, hardware);
  };
  // A program repeats the same few reads of units for every micro-batch.
  std::map<std::pair<int, int>, double> known_s;  // [chunk, first unit]
  const auto file_s = [&](const Action& action) {
    const auto seconds = [&] {
      return double(file_bytes(rank, action)) / hardware.offload_bytes_per_s;
    };
    if (is_of_piece(action.kind)) return seconds();
    const auto [found, is_new] = known_s.try_emplace({action.chunk, action.first_unit}, 0.0);
    if (is_new) found->second = seconds();
    return found->second;
  };
  return simulate_offload(rank.program, {compute_s, file_s});
}

}  // namespace trireme
