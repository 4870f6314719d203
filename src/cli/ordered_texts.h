#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Prints, in order, texts that are generated at once. The first text that has not ended is printed
// as it comes; later texts wait for their turn.
class OrderedTexts {
 public:
  // Each text begins with its prompt. `has_titles`: before each prompt comes a line such as
  // `== prompt 2 of 5 ==`. `out` must outlive this object.
  OrderedTexts(std::vector<std::string> prompts, bool has_titles, std::ostream& out);

  void add(size_t index, std::string_view piece);
  void end(size_t index);

 private:
  void begin_next();

  std::vector<std::string> waiting_;  // what has come of each text and is not printed yet
  std::vector<bool> has_ended_;
  bool has_titles_;
  std::ostream& out_;
  size_t current_ = 0;  // index of the text that is printed as it comes
};

}  // namespace trireme
