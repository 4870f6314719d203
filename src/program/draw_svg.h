#pragma once

#include <iosfwd>
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

// Draws a row per rank, a box per action with its micro-batch, a time axis and a legend. The
// picture is readable on light and dark backgrounds, and hovering over a box shows its name. A
// Usage error if there would be too many boxes.
Status draw_svg(std::ostream& out, const Schedule& schedule, const Timeline& timeline,
                const SvgCaption& caption);

}  // namespace trireme
