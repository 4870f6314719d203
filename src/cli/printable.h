#pragma once

#include <iosfwd>
#include <streambuf>
#include <string>
#include <string_view>

namespace trireme {

// Returns text that is safe to print on a terminal. Names, tokens, metadata and messages that quote
// a file may contain escape sequences, which move the cursor, change the title or hide text.
// Control characters except newline and tab, characters that change the writing direction, and
// bytes that are not UTF-8 become visible: "\x1b", "\u202e", "\xff".
std::string printable(std::string_view text);

// Passes printable() text on to another buffer. A piece may end inside a character.
class PrintableBuffer : public std::streambuf {
 public:
  explicit PrintableBuffer(std::streambuf& to) : to_(to) {}
  ~PrintableBuffer() override;

  // Passes on a control sequence of the program itself.
  void pass(std::string_view sequence);

 protected:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* text, std::streamsize size) override;
  int sync() override;

 private:
  std::streambuf& to_;
  std::string unfinished_;  // start of an incomplete character, at most three bytes
};

// Writes a control sequence of the program itself: a colour, or erasing a line.
void write_control(std::ostream& out, std::string_view sequence);

}  // namespace trireme
