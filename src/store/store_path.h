#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace trireme {

// The name of a file in a store has at most 1,024 bytes: names of at most 255 bytes, separated by
// "/". None of them is empty, "." or "..", and none has a control character or a backslash, so a
// name stays inside any folder below which it is written.
Status check_store_path(std::string_view path);
// A store has a name of at most 64 letters, digits, "-", "_" and ".", and begins with a letter or a
// digit.
Status check_store_name(std::string_view name);

struct StoreUrl {
  std::string store;
  std::string path;  // "": the whole store
};
// Parses store://NAME/PATH and checks both.
Result<StoreUrl> parse_store_url(std::string_view text);
bool is_store_url(std::string_view text);

}  // namespace trireme
