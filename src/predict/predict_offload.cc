#include "predict/predict_offload.h"

#include <map>
#include <span>
#include <tuple>

#include "predict/predict.h"

namespace trireme {
namespace {

double file_bytes_of(const AxisBytes& traffic) {
  for (const auto& [axis, bytes] : traffic) {
    if (axis == "file") return double(bytes);
  }
  return 0.0;
}

double elements_of(const OffloadPiece& piece) {
  double elements = 0.0;
  for (const OffloadRun& run : piece.runs) elements += double(run.count);
  return elements;
}

}  // namespace

OffloadTimes predict_offload(const RunPlan& plan, const RankPlan& rank, const UnitPrices& prices,
                             const Hardware& hardware, CollectiveBytes& collective_bytes) {
  const bool has_file = plan.config.memory.offload != OffloadChoice::None;
  if (!has_file || hardware.offload_bytes_per_s <= 0.0) return {};
  const auto compute_s = [&](const Action& action) {
    if (action.chunk < 0) return 0.0;
    const ChunkTables& chunk = rank.chunks[size_t(action.chunk)];
    if (action.kind == ActionKind::StepPiece) {
      const OffloadPiece& piece = chunk.pieces[size_t(action.microbatch)];
      return price_update(elements_of(piece), plan.shape, hardware);
    }
    return seconds_of(prices.of(chunk.stage, action), action.kind);
  };
  // A program repeats the same few reads for every micro-batch.
  std::map<std::tuple<ActionKind, int, int, int>, double> known_s;
  const auto file_s = [&](const Action& action) {
    const int which = is_of_piece(action.kind) ? action.microbatch : action.first_unit;
    const auto [found, is_new] =
        known_s.try_emplace({action.kind, action.chunk, which, action.num_units}, 0.0);
    if (is_new) {
      const AxisBytes traffic = predict_traffic(plan, rank, hardware.ranks_per_node(),
                                                std::span(&action, 1), collective_bytes);
      found->second = file_bytes_of(traffic) / hardware.offload_bytes_per_s;
    }
    return found->second;
  };
  return simulate_offload(rank.program, {compute_s, file_s});
}

}  // namespace trireme
