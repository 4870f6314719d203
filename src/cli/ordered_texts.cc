#include "cli/ordered_texts.h"

#include <fmt/format.h>

#include <utility>

namespace trireme {

OrderedTexts::OrderedTexts(std::vector<std::string> prompts, bool has_titles, std::ostream& out)
    : waiting_(std::move(prompts)),
      has_ended_(waiting_.size()),
      has_titles_(has_titles),
      out_(out) {
  begin_next();
}

void OrderedTexts::begin_next() {
  if (current_ == waiting_.size()) return;
  if (has_titles_) {
    out_ << (current_ == 0 ? "" : "\n")
         << fmt::format("== prompt {} of {} ==\n", current_ + 1, waiting_.size());
  }
  out_ << std::exchange(waiting_[current_], {}) << std::flush;
}

void OrderedTexts::add(size_t index, std::string_view piece) {
  if (index == current_) {
    out_ << piece << std::flush;
  } else {
    waiting_[index] += piece;
  }
}

void OrderedTexts::end(size_t index) {
  has_ended_[index] = true;
  while (current_ < waiting_.size() && has_ended_[current_]) {
    out_ << "\n" << std::flush;
    ++current_;
    begin_next();
  }
}

}  // namespace trireme
