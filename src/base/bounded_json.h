#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/input_limits.h"
#include "base/result.h"

namespace trireme {

struct JsonLimits {
  int depth = limits::kDepth;
  int64_t values = limits::kJsonValues;
  int64_t token_bytes = limits::kJsonTokenBytes;  // of one string or number
  int64_t members = INT64_MAX;                    // of one object or array
};

// Refuses a JSON text that would be too expensive to parse. It reads the text once in constant
// memory; the parser checks the syntax.
Status check_json_limits(std::string_view text, const JsonLimits& limits = {});

// Parses a text within the limits. The error names the byte at which the text is wrong.
Result<nlohmann::json> parse_bounded_json(std::string_view text, const JsonLimits& limits = {});

// Shortens the message of a JSON parser to one line, because it may quote megabytes of its input,
// and leaves out the name of its exception.
std::string json_problem(std::string_view what);

}  // namespace trireme
