#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace trireme {

// Appends the string that one JSON object (a line of a JSON Lines file) has under `field`. The
// whole line is checked strictly, but bytes that are not UTF-8 are kept in strings. If a field is
// repeated the last one counts. Half a surrogate pair (\ud83d without its partner) has no UTF-8
// form; it becomes U+FFFD and is counted in num_replaced. Errors name the byte of the line.
Status append_json_string(std::string_view line, std::string_view field, std::string& text,
                          int64_t& num_replaced);

}  // namespace trireme
