#include "watch/program_page.h"

#include <algorithm>

namespace trireme {

void ProgramPage::show(std::span<const std::string> actions) {
  num_actions_.store(0, std::memory_order_seq_cst);
  size_t end = 0;
  uint32_t count = 0;
  for (const std::string& action : actions) {
    if (count == kMostActions || end + action.size() > kMostBytes) break;
    for (const char c : action) text_[end++].store(c, std::memory_order_relaxed);
    ends_[count++].store(uint32_t(end), std::memory_order_relaxed);
  }
  num_actions_.store(count, std::memory_order_release);
}

// A rank that is out of order may have written anything here, so no number is trusted.
std::string ProgramPage::text_of(int64_t action) const {
  const size_t count = std::min<size_t>(num_actions_.load(std::memory_order_acquire), kMostActions);
  if (action < 0 || size_t(action) >= count) return "";
  const auto index = size_t(action);
  const size_t begin = index == 0 ? 0 : ends_[index - 1].load(std::memory_order_relaxed);
  const size_t end = std::min<size_t>(ends_[index].load(std::memory_order_relaxed), kMostBytes);
  std::string text;
  for (size_t i = begin; i < end; ++i) {
    const char c = text_[i].load(std::memory_order_relaxed);
    text += c >= ' ' && c <= '~' ? c : '?';
  }
  return text;
}

}  // namespace trireme
