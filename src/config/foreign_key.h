#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Returns the key of RUN.toml for a name in other programs: "learning_rate" and "learning-rate"
// give optim.lr. Returns "" if there is none.
std::string key_of_foreign_name(std::string_view name);

// Like key_of_foreign_name, for a name that may be misspelt.
std::string key_near_foreign_name(std::string_view name);

std::vector<std::string> foreign_key_names();

}  // namespace trireme
