#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "program/timeline.h"
#include "schema/program.h"

namespace trireme {

struct SvgCaption {
  std::string title;
  std::vector<std::string> lines;  // text below the picture
  std::string unit;                // of the time axis: "" or "s"
};

// One of several schedules of a picture. The schedule and its timeline are borrowed.
struct DrawnSchedule {
  const Schedule& schedule;
  const Timeline& timeline;
  std::string heading;  // text above its rows; "": none
};

// Draws the schedules one above the other over one time axis. Each rank has a row, each action is a
// box with its micro-batch, and there is a legend. The picture is readable on light and dark
// backgrounds, and hovering over a box shows its name. A Usage error if there are too many boxes.
Status draw_svg(std::ostream& out, std::span<const DrawnSchedule> schedules,
                const SvgCaption& caption);

}  // namespace trireme
