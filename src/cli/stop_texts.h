#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace trireme {

// Cuts a stream of text before the first of several stop texts. The end of the stream is held back
// as long as it may be the start of a stop text.
class StopTexts {
 public:
  // A Usage error if a text is empty. Without texts, the stream is never cut.
  static Result<StopTexts> make(std::vector<std::string> texts);

  // Adds a piece of the stream. Returns the text that may be shown now, which begins with what was
  // held back. After a stop text, it returns "".
  std::string add(std::string_view piece);
  bool has_stopped() const { return has_stopped_; }  // true once a stop text was found
  // Call it at the end of the stream: returns the text that is still held back.
  std::string rest();

 private:
  explicit StopTexts(std::vector<std::string> texts) : texts_(std::move(texts)) {}

  std::vector<std::string> texts_;
  std::string held_;
  bool has_stopped_ = false;
};

}  // namespace trireme
