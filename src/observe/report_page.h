#pragma once

#include <string>
#include <string_view>

namespace trireme {

// Returns the HTML of a report: the style and scripts of train/report/ with `data` (JSON) embedded.
std::string report_page(std::string_view data);

}  // namespace trireme
