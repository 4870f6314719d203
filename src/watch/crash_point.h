#pragma once

#include <cstdint>
#include <string_view>

namespace trireme {

// Named places at which a rank can be made to die, to show that a job survives a death there
// (`trireme chaos --faults point`). The first ones are entries into a RankPhase, in its order.
enum class CrashPoint : uint32_t {
  None,
  Start,
  Compile,
  Load,
  WarmUp,
  Step,
  Evaluate,
  Save,
  Recover,
  Leave,
  BeforeUpdate,     // the gradients are complete, and the update may write its files in memory
  MemoryBegun,      // all ranks have the tensors of a checkpoint in memory, and nothing names it
  MemoryWritten,    // it is complete, but has no name that a reader would look for
  MemoryCommitted,  // it has this name, and training does not know it yet
  DiskBegun,        // the tensors were copied for a checkpoint on disk
  DiskWritten,      // a rank has written its shards
  DiskIndexed,      // all shards and the index are on disk, the name is not
  DiskCommitted,    // it has its name, and older ones are not removed yet
  OrderTaken,       // the rank has its place in the next epoch
  Chosen,           // all ranks have agreed on the checkpoint that is resumed
  Restored,         // the state of this checkpoint is in the memory of the rank
  Reported,         // the reports of the run are written
};
inline constexpr std::string_view kCrashPointNames[] = {"none",           "start",
                                                        "compile",        "load",
                                                        "warm-up",        "step",
                                                        "evaluate",       "save",
                                                        "recover",        "leave",
                                                        "before-update",  "memory-begun",
                                                        "memory-written", "memory-committed",
                                                        "disk-begun",     "disk-written",
                                                        "disk-indexed",   "disk-committed",
                                                        "order-taken",    "chosen",
                                                        "restored",       "reported"};
inline constexpr uint32_t kNumCrashPoints = 22;
inline std::string_view name_of(CrashPoint point) {
  return kCrashPointNames[static_cast<uint32_t>(point)];
}

}  // namespace trireme
