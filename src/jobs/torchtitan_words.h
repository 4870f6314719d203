#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "schema/run_config_choices.h"

namespace trireme {

struct TorchtitanSchedule {
  ScheduleKind kind;
  std::string_view name;
};
inline constexpr TorchtitanSchedule kTorchtitanSchedules[] = {
    {ScheduleKind::Gpipe, "GPipe"},
    {ScheduleKind::OneFOneB, "1F1B"},
    {ScheduleKind::Interleaved, "Interleaved1F1B"},
    {ScheduleKind::ZbV, "ZBVZeroBubble"},
    {ScheduleKind::DualpipeV, "DualPipeV"},
};

// A released llama 3, whose sizes torchtitan knows by the flavor's name.
struct TorchtitanFlavor {
  std::string_view name;
  std::string_view preset;  // of ours
  int64_t layers, d_model, heads, d_ff;
};
inline constexpr TorchtitanFlavor kTorchtitanFlavors[] = {
    {"8B", "llama3-8b", 32, 4096, 32, 14336},
    {"70B", "llama3-70b", 80, 8192, 64, 28672},
    {"405B", "llama3-405b", 126, 16384, 128, 53248},
};

// "" if torchtitan has no schedule of this kind by name.
constexpr std::string_view torchtitan_schedule(ScheduleKind kind) {
  for (const TorchtitanSchedule& schedule : kTorchtitanSchedules) {
    if (schedule.kind == kind) return schedule.name;
  }
  return "";
}

constexpr std::optional<ScheduleKind> schedule_of_torchtitan(std::string_view name) {
  for (const TorchtitanSchedule& schedule : kTorchtitanSchedules) {
    if (schedule.name == name) return schedule.kind;
  }
  return std::nullopt;
}

}  // namespace trireme
