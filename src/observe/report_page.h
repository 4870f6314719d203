#pragma once

#include <string>
#include <string_view>

namespace trireme {

// The page of a report: HTML, style and scripts of train/report/, with `data` (JSON) in it.
std::string report_page(std::string_view data);

}  // namespace trireme
