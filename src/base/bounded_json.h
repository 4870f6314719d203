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

// Refuses a JSON text that would cost too much to parse. Reads it once, in constant memory, and
// leaves its syntax to the parser.
Status check_json_limits(std::string_view text, const JsonLimits& limits = {});

// Parses a text within the limits. The error says at which byte the text is wrong.
Result<nlohmann::json> parse_bounded_json(std::string_view text, const JsonLimits& limits = {});

// Shortens the message of a JSON parser to one line, because it may quote megabytes of its input.
std::string json_problem(std::string_view what);

}  // namespace trireme
