#include "cli/stop_texts.h"

#include <algorithm>
#include <utility>

namespace trireme {

Result<StopTexts> StopTexts::make(std::vector<std::string> texts) {
  if (std::ranges::count(texts, "") > 0) {
    return usage(
        "--stop is empty, and every text contains that; name the text that ends the output");
  }
  return StopTexts(std::move(texts));
}

std::string StopTexts::add(std::string_view piece) {
  std::string shown;
  for (const char byte : piece) {
    if (has_stopped_) break;
    held_ += byte;
    size_t kept = 0;     // length of the longest end of held_ that begins a stop text
    size_t stopped = 0;  // length of the longest stop text at the end of held_; 0: none
    for (const std::string_view text : texts_) {
      for (size_t size = std::min(text.size(), held_.size()); size > kept; --size) {
        if (held_.ends_with(text.substr(0, size))) kept = size;
      }
      if (held_.ends_with(text)) stopped = std::max(stopped, text.size());
    }
    has_stopped_ = stopped > 0;
    const size_t num_shown = held_.size() - (has_stopped_ ? stopped : kept);
    shown += held_.substr(0, num_shown);
    held_.erase(0, num_shown);
  }
  return shown;
}

std::string StopTexts::rest() { return has_stopped_ ? "" : std::exchange(held_, ""); }

}  // namespace trireme
