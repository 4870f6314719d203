#include "base/nearest_name.h"

#include <algorithm>

#include "base/edit_distance.h"

namespace trireme {

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  std::string best;
  // A longer name may have more wrong letters.
  size_t best_distance = (std::max<size_t>(name.size(), 3) - 1) / 2 + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(name, candidate);
    const bool shares_letters = distance < std::max(name.size(), candidate.size());
    if (shares_letters && distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace trireme
