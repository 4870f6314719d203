#include "schema/param_patterns.h"

#include <algorithm>
#include <utility>

namespace trireme {
namespace {

// Adds what may follow a star without text of its own.
void add_remainder(std::string_view rest, std::vector<std::string_view>& rests) {
  if (std::find(rests.begin(), rests.end(), rest) != rests.end()) return;
  rests.push_back(rest);
  if (rest.starts_with('*')) add_remainder(rest.substr(1), rests);
}

}  // namespace

std::vector<std::string_view> split_patterns(std::string_view patterns) {
  std::vector<std::string_view> result;
  while (!patterns.empty()) {
    const size_t comma = std::min(patterns.find(','), patterns.size());
    std::string_view pattern = patterns.substr(0, comma);
    patterns.remove_prefix(std::min(comma + 1, patterns.size()));
    while (pattern.starts_with(' ')) pattern.remove_prefix(1);
    while (pattern.ends_with(' ')) pattern.remove_suffix(1);
    if (!pattern.empty()) result.push_back(pattern);
  }
  return result;
}

// Gives each star as little text as possible. If the rest does not match, only the last star gets
// one more character, because an earlier star cannot help then.
bool matches_pattern(std::string_view pattern, std::string_view name) {
  size_t at = 0, in_name = 0, star = std::string_view::npos, star_end = 0;
  while (in_name < name.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      star_end = in_name;
    } else if (at < pattern.size() && pattern[at] == name[in_name]) {
      ++at;
      ++in_name;
    } else if (star != std::string_view::npos) {
      at = star + 1;
      in_name = ++star_end;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == std::string_view::npos;
}

bool matches_any(std::string_view patterns, std::string_view name) {
  const std::vector<std::string_view> all = split_patterns(patterns);
  return std::any_of(all.begin(), all.end(),
                     [&](std::string_view pattern) { return matches_pattern(pattern, name); });
}

std::vector<std::vector<std::string_view>> remainders(std::string_view patterns,
                                                      std::string_view prefix) {
  std::vector<std::vector<std::string_view>> all;
  for (const std::string_view pattern : split_patterns(patterns)) {
    std::vector<std::string_view>& rests = all.emplace_back();
    add_remainder(pattern, rests);
    for (const char next : prefix) {
      std::vector<std::string_view> behind;
      for (const std::string_view rest : rests) {
        if (rest.starts_with('*')) {
          add_remainder(rest, behind);
        } else if (rest.starts_with(next)) {
          add_remainder(rest.substr(1), behind);
        }
      }
      rests = std::move(behind);
    }
    std::sort(rests.begin(), rests.end());
  }
  return all;
}

}  // namespace trireme
