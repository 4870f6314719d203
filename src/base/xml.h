#pragma once

#include <string>
#include <string_view>

namespace trireme {

// Text as it may stand in an element or an attribute of XML or HTML.
std::string xml_escaped(std::string_view text);

}  // namespace trireme
