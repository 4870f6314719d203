#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace trireme {

// JSON text whose last key is the checksum of everything before it, so that one changed, missing or
// added byte is noticed: {"step":3,\n"checksum":"0123456789abcdef"}\n
// `object` is a JSON object with at least one key; white space may follow it.
std::string seal_json(std::string_view object);
// Returns an error that says why if the text is not exactly what seal_json has returned.
Status check_seal(std::string_view sealed);

}  // namespace trireme
