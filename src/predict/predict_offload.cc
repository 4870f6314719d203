#include "predict/predict_offload.h"

#include <vector>

#include "compile/step_price.h"
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
    return price_update(elements_of(piece), plan.shape, hardware, OfDevices::Slowest);
  };
  // A program repeats the same few reads of units for every micro-batch.
  std::vector<std::vector<double>> known_s;  // [chunk][first unit]; negative: not priced yet
  for (const ChunkTables& chunk : rank.chunks) {
    known_s.emplace_back(size_t(num_units(chunk.stage)), -1.0);
  }
  const auto file_s = [&](const Action& action) {
    const bool writes =
        action.kind == ActionKind::OffloadUnits || action.kind == ActionKind::OffloadPiece;
    const double speed = writes ? hardware.offload_write_speed() : hardware.offload_bytes_per_s;
    const auto seconds = [&] { return double(file_bytes(rank, action)) / speed; };
    if (writes || is_of_piece(action.kind)) return seconds();
    double& known = known_s[size_t(action.chunk)][size_t(action.first_unit)];
    if (known < 0.0) known = seconds();
    return known;
  };
  return simulate_offload(rank.program, {compute_s, file_s, hardware.offload_share});
}

}  // namespace trireme
