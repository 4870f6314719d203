#pragma once

#include <string>
#include <string_view>

namespace trireme {

// What to say of a key that no field of RUN.toml has: "model.layer is unknown; did you mean
// model.layers?" Names of the same section come first, then the same name of others; where none is
// near, the keys of the section.
std::string unknown_key_message(std::string_view key);

}  // namespace trireme
