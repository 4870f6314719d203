#include "base/philox.h"

#include <cmath>
#include <numbers>

#include "base/hash.h"

namespace trireme {

std::array<double, 2> normal_pair(RngKey key, PhiloxCounter counter) {
  const PhiloxCounter words = philox(key, counter);
  const double scale = 1.0 / 4294967296.0;
  const double u = (words[0] + 1.0) * scale;  // (0, 1]: its logarithm is finite
  const double v = words[1] * scale;
  const double radius = std::sqrt(-2.0 * std::log(u));
  return {radius * std::cos(2.0 * std::numbers::pi * v),
          radius * std::sin(2.0 * std::numbers::pi * v)};
}

RngKey rng_key(uint64_t seed, std::string_view site) { return {hash64(site, seed)}; }

}  // namespace trireme
