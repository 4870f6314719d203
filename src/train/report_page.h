#pragma once

#include <string_view>

namespace trireme {

// The page of a report: HTML, style and script, with @@DATA@@ where the run's data go.
std::string_view report_page();

}  // namespace trireme
