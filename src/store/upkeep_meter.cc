#include "store/upkeep_meter.h"

#include <algorithm>

#include "base/clock.h"

namespace trireme {
namespace {

constexpr uint64_t kShortMs = 1000;  // shorter work is not told to the metadata

}  // namespace

UpkeepMeter::UpkeepMeter(Store& store, UpkeepKind kind, uint64_t total_blocks,
                         const OnProgress& on_progress)
    : store_(store),
      on_progress_(on_progress),
      begin_ns_(monotonic_ns()),
      progress_{.kind = kind, .total = total_blocks} {}

Status UpkeepMeter::step(int64_t bytes) {
  ++progress_.done;
  progress_.total = std::max(progress_.total, progress_.done);
  progress_.bytes = uint64_t(bytes);
  progress_.ms = uint64_t(monotonic_ns() - begin_ns_) / 1'000'000;
  if (progress_.ms >= kShortMs) store_.publish(progress_);
  return on_progress_ ? on_progress_(progress_) : Status(Done{});
}

}  // namespace trireme
