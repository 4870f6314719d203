#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace trireme {

// How the values of a swept key follow each other: written one by one, by equal factors, or by
// equal differences.
enum class Spacing { List, Log, Linear };

// One `--over KEY=SPEC` of trireme sweep, such as optim.lr=1e-4..1e-2:log5.
struct SweptKey {
  std::string key;   // of RUN.toml, such as "optim.lr"
  std::string spec;  // as it was written, such as "1e-4..1e-2:log5"
  Spacing spacing = Spacing::List;
  double from = 0.0, to = 0.0;  // of a range: from < to
  bool is_integer = false;      // the key takes integers, so values of a range are rounded
  // The values of a list, or those of a range that says how many, as --set takes them. Empty: the
  // range says only how its values are spaced, for random draws.
  std::vector<std::string> values;
};

inline constexpr int64_t kMostTrials = 1000;  // of one sweep

// Parses KEY=SPEC. SPEC is A..B:logN or A..B:linN (N values from A to B, both included; without N
// for random draws), or a list v1,v2,v3. A value of the list that has a comma stands in double
// quotes or brackets.
Result<SweptKey> parse_swept_key(std::string_view text);

// The value at `share` in [0, 1] of the way through a range: an integer if the key takes integers,
// else rounded to six digits, which is how it is printed, typed and read again.
double value_at(const SweptKey& key, double share);

// A number as TOML that reads back to the same value. An integral value has no point or exponent.
std::string number_text(double value);

}  // namespace trireme
