#pragma once

#include <string>
#include <string_view>

namespace trireme {

// An SVG text that begins at x with its baseline at y. `classes` are those of its style.
std::string svg_text(double x, double y, std::string_view classes, const std::string& text);

}  // namespace trireme
