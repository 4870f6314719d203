#pragma once

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
