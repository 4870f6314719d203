#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Distinct words, numbered in the order of their first occurrence.
class WordTable {
 public:
  WordTable();

  // Returns the number of the word. A new word increases size() by one.
  uint32_t find_or_add(std::string_view word);
  std::string_view word(uint32_t index) const;
  uint32_t size() const { return static_cast<uint32_t>(begins_.size() - 1); }
  void clear();

 private:
  struct Slot {
    uint32_t hash = 0;
    uint32_t number = 0;  // index + 1; 0: empty
  };
  void grow();

  std::vector<Slot> slots_;     // open addressing, a power of two, at most half full
  std::string bytes_;           // of all words, one after the other
  std::vector<size_t> begins_;  // [word] begin in bytes_, and the end of the last word
};

}  // namespace trireme
