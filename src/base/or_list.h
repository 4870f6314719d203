#pragma once

#include <string>
#include <vector>

namespace trireme {

// Returns text such as "1, 2 or 4".
inline std::string or_list(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    text += i == 0 ? "" : i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

}  // namespace trireme
