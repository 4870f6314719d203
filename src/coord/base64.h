#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace trireme {

std::string base64_of(std::string_view bytes);
// Refuses a text with other characters or with a length that is not a multiple of 4.
Result<std::string> bytes_of_base64(std::string_view text);

}  // namespace trireme
