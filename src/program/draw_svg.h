#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "base/result.h"
#include "program/timeline.h"
#include "spec/program.h"

namespace trireme {

struct SvgCaption {
  std::string title;
  std::vector<std::string> lines;  // below the picture
  std::string unit;                // of the time axis: "", "s"
};

// A row per rank, a box per action with its micro-batch, a time axis and a legend; readable on
// light and dark backgrounds; hovering over a box names it. Refused (Usage) where boxes would be
// too many.
Status draw_svg(std::ostream& out, const Schedule& schedule, const Timeline& timeline,
                const SvgCaption& caption);

}  // namespace trireme
