#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

inline constexpr double kMostRate = 1e12;  // items per second that a file may state

// "operators", "detector", "weight" of "operators.detector.weight".
inline std::vector<std::string> key_parts(std::string_view key) {
  std::vector<std::string> parts;
  while (true) {
    const size_t dot = key.find('.');
    parts.emplace_back(key.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    key.remove_prefix(dot + 1);
  }
}

// Returns the element with this name, which is added at the end if it is new.
template <typename Named>
Named& element_named(std::vector<Named>& elements, const std::string& name) {
  for (Named& element : elements) {
    if (element.name == name) return element;
  }
  Named& added = elements.emplace_back();
  added.name = name;
  return added;
}

// -1: there is none.
template <typename Named>
int index_named(const std::vector<Named>& elements, const std::string& name) {
  for (size_t i = 0; i < elements.size(); ++i) {
    if (elements[i].name == name) return int(i);
  }
  return -1;
}

template <typename Named>
std::vector<std::string> names_of(const std::vector<Named>& elements) {
  std::vector<std::string> names;
  for (const Named& element : elements) names.push_back(element.name);
  return names;
}

}  // namespace trireme
