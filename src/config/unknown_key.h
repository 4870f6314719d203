#pragma once

#include <string>
#include <string_view>

namespace trireme {

// Returns the message for a key that RUN.toml does not have, such as "model.layer is unknown; did
// you mean model.layers?" It suggests similar names of the same section first, then the same name
// in other sections; if none is similar, the key of that name in other programs, then the keys of
// the section.
std::string unknown_key_message(std::string_view key);

// Says how to write `--tp 2` or `tp=2` with --set: "write --set parallel.tp=2". Returns "" if the
// word is neither a key nor the last part of one.
std::string write_set(std::string_view word, std::string_view value);

}  // namespace trireme
