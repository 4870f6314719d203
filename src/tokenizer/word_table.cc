#include "tokenizer/word_table.h"

#include "base/check.h"
#include "base/hash.h"

namespace trireme {
namespace {

constexpr size_t kFirstSlots = 1024;

}  // namespace

WordTable::WordTable() : slots_(kFirstSlots), begins_{0} {}

std::string_view WordTable::word(uint32_t index) const {
  return std::string_view(bytes_).substr(begins_[index], begins_[index + 1] - begins_[index]);
}

uint32_t WordTable::find_or_add(std::string_view word) {
  const uint32_t hash = static_cast<uint32_t>(hash64(word));
  const size_t mask = slots_.size() - 1;
  size_t place = hash & mask;
  for (; slots_[place].number != 0; place = (place + 1) & mask) {
    const Slot slot = slots_[place];
    if (slot.hash == hash && this->word(slot.number - 1) == word) return slot.number - 1;
  }
  TRIREME_CHECK(size() < UINT32_MAX - 1, "more distinct words than can be numbered");
  bytes_ += word;
  begins_.push_back(bytes_.size());
  slots_[place] = {hash, size()};
  if (begins_.size() * 2 > slots_.size()) grow();
  return size() - 1;
}

void WordTable::clear() {
  slots_.assign(kFirstSlots, {});
  bytes_.clear();
  begins_.assign(1, 0);
}

void WordTable::grow() {
  std::vector<Slot> slots(slots_.size() * 2);
  const size_t mask = slots.size() - 1;
  for (const Slot& slot : slots_) {
    if (slot.number == 0) continue;
    size_t place = slot.hash & mask;
    while (slots[place].number != 0) place = (place + 1) & mask;
    slots[place] = slot;
  }
  slots_.swap(slots);
}

}  // namespace trireme
