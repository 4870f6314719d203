#pragma once

#include <cstdint>

#include "base/philox.h"

namespace trireme {

// Chooses the documents that are held out: about `fraction` of any part of the stream, spread
// evenly but not periodically, without knowing its end.
class ValSplit {
 public:
  ValSplit(uint64_t seed, double fraction);  // `fraction` is in [0, 1)
  bool holds_out(int64_t document) const;

 private:
  RngKey key_;
  double fraction_;
};

}  // namespace trireme
