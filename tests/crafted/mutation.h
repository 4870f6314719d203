#pragma once

#include <cstdint>
#include <string>

namespace trireme {

// A small generator of our own: the same numbers with every library.
class CraftedRandom {
 public:
  explicit CraftedRandom(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
  uint64_t below(uint64_t end);  // 0 .. end - 1

 private:
  uint64_t state_;
};

// The file with one to four changes: flipped bits, lengths and numbers made huge, parts left out,
// doubled or put elsewhere, nesting added. Most of it stays what a writer wrote, so that a reader
// gets far.
std::string mutated(const std::string& file, CraftedRandom& random);

}  // namespace trireme
