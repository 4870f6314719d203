#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trireme {

// Maps pairs of tokens to numbers (open addressing).
class PairTable {
 public:
  static constexpr uint32_t kAbsent = UINT32_MAX;

  PairTable() : slots_(size_t{1} << kFirstBits) {}

  uint32_t find(int32_t left, int32_t right) const {
    const uint64_t key = key_of(left, right);
    for (size_t place = place_of(key);; place = (place + 1) & (slots_.size() - 1)) {
      if (slots_[place].key == key) return slots_[place].number;
      if (slots_[place].key == kEmpty) return kAbsent;
    }
  }

  // Returns the pair's number, which may be read and set until the next call. It is kAbsent for a
  // new pair.
  uint32_t& find_or_add(int32_t left, int32_t right) {
    if (size_ * 2 >= slots_.size()) grow();
    Slot& slot = slot_of(key_of(left, right));
    size_ += slot.key == kEmpty;
    slot.key = key_of(left, right);
    return slot.number;
  }

  size_t size() const { return size_; }

 private:
  static constexpr int kFirstBits = 10;
  static constexpr uint64_t kEmpty = UINT64_MAX;
  struct Slot {
    uint64_t key = kEmpty;
    uint32_t number = kAbsent;
  };

  static uint64_t key_of(int32_t left, int32_t right) {
    return (uint64_t{static_cast<uint32_t>(left)} << 32) | static_cast<uint32_t>(right);
  }
  // Fibonacci hashing: the high bits of the product depend on all bits of the key.
  size_t place_of(uint64_t key) const { return (key * 0x9E3779B97F4A7C15u) >> (64 - bits_); }

  // Returns the key's slot, or the empty slot where it belongs.
  Slot& slot_of(uint64_t key) {
    size_t place = place_of(key);
    while (slots_[place].key != key && slots_[place].key != kEmpty) {
      place = (place + 1) & (slots_.size() - 1);
    }
    return slots_[place];
  }

  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    ++bits_;
    for (const Slot& slot : old) {
      if (slot.key != kEmpty) slot_of(slot.key) = slot;
    }
  }

  std::vector<Slot> slots_;
  int bits_ = kFirstBits;  // slots_.size() == 2^bits_
  size_t size_ = 0;
};

}  // namespace trireme
