#pragma once

#include <cstdint>

#include "base/philox.h"

namespace trireme {

// Which documents of a stream are held out: close to `fraction` of any stretch of it, spread evenly
// but not periodically, known without seeing the end.
class ValSplit {
 public:
  ValSplit(uint64_t seed, double fraction);  // fraction in [0, 1)
  bool holds_out(int64_t document) const;

 private:
  RngKey key_;
  double fraction_;
};

}  // namespace trireme
