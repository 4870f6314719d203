#pragma once

#include <cstdint>
#include <string>

namespace trireme {

// A small random generator of our own, which gives the same numbers with every library.
class CraftedRandom {
 public:
  explicit CraftedRandom(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
  uint64_t below(uint64_t end);  // 0 .. end - 1

 private:
  uint64_t state_;
};

// Returns the file with one to four changes: flipped bits, huge lengths and numbers, parts removed,
// doubled or moved, nesting added. Most of it stays valid, so that a reader gets far.
std::string mutated(const std::string& file, CraftedRandom& random);

}  // namespace trireme
