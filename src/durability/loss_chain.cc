#include "durability/loss_chain.h"

#include <cmath>
#include <vector>

namespace trireme {
namespace {

// The mean of a function of the units that a block's chunks stand on, each weighted by how often it
// takes a chunk away.
template <typename Value>
double mean_over_units(const PlacedBlocks& placed, Value&& value) {
  double sum = 0.0, weight = 0.0;
  for (const LossUnit& unit : placed.units) {
    sum += unit.per_year * value(unit);
    weight += unit.per_year;
  }
  return sum / weight;
}

// How long blocks with so many lost chunks stay so. All wait detect_s. Then they are rebuilt one
// after the other, which takes `rebuild_s`.
struct Window {
  double detect_s = 0.0;
  double rebuild_s = 0.0;

  double mean_s() const { return detect_s + rebuild_s / 2.0; }
  // The mean share of the blocks that is not rebuilt yet, seen by one that is not at the time of
  // its next loss.
  double share_left() const { return (detect_s + rebuild_s / 3.0) / mean_s(); }
  // If `blocks` of them, in the mean, would be lost with a unit at the beginning of the window:
  // moments with a loss for each block that is lost, over all moments of the window.
  double events_per_block(double blocks) const {
    if (blocks < 1e-9) return 1.0;
    const double any = -std::expm1(-blocks);
    return (detect_s * any + rebuild_s * (1.0 - any / blocks)) / (blocks * mean_s());
  }
};

// [lost chunks - 1], up to those that a block bears.
std::vector<Window> windows_of(const PlacedBlocks& placed) {
  const double first =
      mean_over_units(placed, [&](const LossUnit& unit) { return placed.blocks_on(unit); });
  std::vector<Window> windows;
  double others = first;  // blocks that have lost the same chunks
  for (int lost = 1; lost <= placed.num_parity; ++lost) {
    const double waiting = !placed.worst_first || lost == 1 ? first : 1.0 + others;
    windows.push_back({placed.detect_s, placed.rebuild_s(waiting)});
    others *= windows.back().share_left() * mean_over_units(placed, [&](const LossUnit& unit) {
                return placed.share_on(unit, lost);
              });
  }
  return windows;
}

// The mean of events_per_block() over the kinds of the num_parity + 1 units. `blocks` have lost
// chunks on the first `lost` of them.
double events_per_block(const PlacedBlocks& placed, const Window& last, int lost, double blocks) {
  if (lost > placed.num_parity) return last.events_per_block(blocks);
  return mean_over_units(placed, [&](const LossUnit& unit) {
    const double with_it =
        lost == 0 ? placed.blocks_on(unit) : blocks * placed.share_on(unit, lost);
    return events_per_block(placed, last, lost + 1, with_it);
  });
}

}  // namespace

double mean_time_to_loss_s(std::span<const double> losses_per_s,
                           std::span<const double> repairs_per_s) {
  double total_s = 0.0;
  double step_s = 0.0;  // from one more lost chunk to the next, repairs between included
  for (size_t lost = 0; lost < losses_per_s.size(); ++lost) {
    const double repairs = lost == 0 ? 0.0 : repairs_per_s[lost] * step_s;
    step_s = (1.0 + repairs) / losses_per_s[lost];
    total_s += step_s;
  }
  return total_s;
}

double LossRate::in_a_year() const { return -std::expm1(-events_per_year); }

LossRate chain_losses(const PlacedBlocks& placed) {
  if (placed.units.empty() || placed.blocks < 1.0) return {};
  const std::vector<Window> windows = windows_of(placed);
  std::vector<double> losses, repairs;
  for (int lost = 0; lost <= placed.num_parity; ++lost) {
    losses.push_back((placed.chunks - lost) * placed.chunk_losses_per_s());
    repairs.push_back(lost == 0 ? 0.0 : 1.0 / windows[size_t(lost - 1)].mean_s());
  }
  const double blocks = placed.blocks * kSecondsOfYear / mean_time_to_loss_s(losses, repairs);
  return {.events_per_year = blocks * events_per_block(placed, windows.back(), 0, 0.0),
          .blocks_per_year = blocks};
}

}  // namespace trireme
