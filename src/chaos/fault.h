#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "watch/crash_point.h"

namespace trireme {

// Ways to disturb a running job.
enum class FaultKind : uint8_t {
  Kill,       // SIGKILL to a rank
  Stop,       // SIGSTOP to a rank
  Partition,  // a host loses its network for a while
  Disk,       // the disk of the checkpoints is full for a while
  Flip,       // a rank is killed, and a bit of the newest checkpoint changes
  Point,      // a rank dies where it reaches a CrashPoint
  Agent,      // SIGKILL to the agent, with which all ranks die
};
inline constexpr std::string_view kFaultNames[] = {"kill", "stop",  "partition", "disk",
                                                   "flip", "point", "agent"};
inline constexpr std::string_view name_of(FaultKind kind) {
  return kFaultNames[static_cast<uint8_t>(kind)];
}
// True if the job begins a new epoch after such a fault.
inline constexpr bool ends_epoch(FaultKind kind) { return kind != FaultKind::Disk; }

// "kill,stop" as kinds. Refuses unknown names, and a list that is empty.
Result<std::vector<FaultKind>> fault_kinds_in(const std::string& list);
// "load,leave" as points at which a running rank can die. Refuses what fault_kinds_in refuses, and
// two points of the end of a run, because a job has one end.
Result<std::vector<CrashPoint>> crash_points_in(const std::string& list);

// True if ranks reach the point only in a later epoch, so that another rank must be lost before.
inline constexpr bool is_of_recovery(CrashPoint point) {
  return point == CrashPoint::Compile || point == CrashPoint::Load || point == CrashPoint::WarmUp ||
         point == CrashPoint::Recover || point == CrashPoint::OrderTaken ||
         point == CrashPoint::Chosen || point == CrashPoint::Restored;
}
// True if only the first rank of a job on one host reaches the point.
inline constexpr bool is_of_first_rank(CrashPoint point) {
  return point == CrashPoint::MemoryWritten || point == CrashPoint::MemoryCommitted ||
         point == CrashPoint::DiskIndexed || point == CrashPoint::DiskCommitted;
}
// True if ranks reach the point after their last step.
inline constexpr bool is_of_end(CrashPoint point) {
  return point == CrashPoint::Leave || point == CrashPoint::Reported;
}

// How faults are drawn.
struct FaultPlan {
  std::vector<FaultKind> kinds;
  double mtbf_s = 15.0;
  uint64_t seed = 1;
  std::vector<CrashPoint> points = {};  // in turn; those of the end come last
};

// A fault that was drawn.
struct PlannedFault {
  FaultKind kind = FaultKind::Kill;
  double after_s = 0.0;  // since the fault before it
  uint32_t target = 0;   // chooses among the ranks or hosts that there are
  uint32_t place = 0;    // chooses a bit
  uint32_t file = 0;     // chooses a file
  CrashPoint point = CrashPoint::None;
};

// Returns fault `number`, from 0, which depends on the plan alone. The times between faults are
// exponential. The kinds come in rounds of a drawn order, so each kind is among the first faults.
PlannedFault planned_fault(const FaultPlan& plan, int number);

// Returns `word` as a number in 0 .. count - 1.
inline size_t chosen(uint32_t word, size_t count) { return size_t((uint64_t(word) * count) >> 32); }

}  // namespace trireme
