#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// The key of RUN.toml that other programs call so: "learning_rate" and "learning-rate" are
// optim.lr. "" where none does.
std::string key_of_foreign_name(std::string_view name);

// The same, where the name may be misspelt.
std::string key_near_foreign_name(std::string_view name);

std::vector<std::string> foreign_key_names();

}  // namespace trireme
