#include "data/val_split.h"

#include <cmath>

#include "base/check.h"

namespace trireme {

ValSplit::ValSplit(uint64_t seed, double fraction)
    : key_(rng_key(seed, "data.val_split")), fraction_(fraction) {
  TRIREME_CHECK(fraction >= 0.0 && fraction < 1.0, "a fraction below 0 or not below 1");
}

// Each document adds `fraction` to a sum. Of the documents that begin between two whole numbers,
// one chosen by the key is held out.
bool ValSplit::holds_out(int64_t document) const {
  if (fraction_ == 0.0) return false;
  const double unit = std::floor(static_cast<double>(document) * fraction_);
  const double first = std::ceil(unit / fraction_);
  const double next = std::ceil((unit + 1.0) / fraction_);
  const double draw = philox(key_, counter_of(static_cast<uint64_t>(unit), 0))[0] / 4294967296.0;
  return static_cast<double>(document) == first + std::floor(draw * (next - first));
}

}  // namespace trireme
