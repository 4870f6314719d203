#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "schema/program.h"

namespace trireme {

struct Color {
  int red = 0, green = 0, blue = 0;
};

// The colour of an action in every picture, light enough for dark text on either background.
Color color_of(ActionKind kind);
// The colours of ops: one for each family of ops (family_of).
Color color_of(OpKind kind);
// Returns the colour as CSS, such as "#7fb2e8".
std::string css(Color color);

// The name of an action in pictures: "F", "B", "W", "BW", "FB", "Sum", "transfer", "memory" or
// "Step".
std::string_view drawn_kind(ActionKind kind);
// Returns the same for an action. An F that runs beside another action is drawn as the pair,
// because the time of the pair is that of its F.
std::string_view drawn_kind(const Action& action);

// What pictures tell apart about ops: "product", "attention", "norm", "elementwise", "routing",
// "table or loss", "redistribution".
std::string_view family_of(OpKind kind);

// Every colour of a report with the name of its style variable, such as "op-F", "mem-params" or
// "time-bubble".
std::vector<std::pair<std::string, Color>> report_palette();

}  // namespace trireme
