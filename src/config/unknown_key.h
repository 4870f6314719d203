#pragma once

#include <string>
#include <string_view>

namespace trireme {

// What to say of a key that no field of RUN.toml has: "model.layer is unknown; did you mean
// model.layers?" Names of the same section come first, then the same name of others; where none is
// near, what other programs call so, and then the keys of the section.
std::string unknown_key_message(std::string_view key);

// How to write what was meant by `--tp 2` or by `tp=2` without --set: "write --set parallel.tp=2".
// "" where the word is no key, nor the last part of one.
std::string write_set(std::string_view word, std::string_view value);

}  // namespace trireme
