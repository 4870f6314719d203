#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "failures/failure_rules.h"

namespace trireme {

// The rules of failures/failure_rules.toml, which the program contains.
FailureRules built_in_failure_rules();

// Reads a file of that format (docs/formats/failure_rules.md) on top of `base`: its rules come
// first, a rule with the name of another one replaces it, and so does a text about a class. One
// error names every problem with its line.
Result<FailureRules> parse_failure_rules(std::string_view text, const std::string& source,
                                         FailureRules base = {});
// The built-in rules, and on top of them those of a file.
Result<FailureRules> load_failure_rules(const std::string& path);

}  // namespace trireme
