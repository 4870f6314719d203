#include "observe/svg_text.h"

#include <fmt/format.h>

#include "base/xml.h"

namespace trireme {

std::string svg_text(double x, double y, std::string_view classes, const std::string& text) {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", classes, x, y,
                     xml_escaped(text));
}

}  // namespace trireme
