#pragma once

#include <iosfwd>
#include <streambuf>
#include <string>
#include <string_view>

namespace trireme {

// The text as a terminal may show it. Names, tokens, metadata and messages that quote a file may
// hold escape sequences, which move the cursor, change the title or hide what follows. Control
// characters other than newline and tab, characters that change the direction of writing and bytes
// that are not UTF-8 become visible: "\x1b", "\u202e", "\xff".
std::string printable(std::string_view text);

// Hands on to another buffer what printable() makes of the text. Pieces may end inside a character.
class PrintableBuffer : public std::streambuf {
 public:
  explicit PrintableBuffer(std::streambuf& to) : to_(to) {}
  ~PrintableBuffer() override;

  // A control sequence of the program's own.
  void pass(std::string_view sequence);

 protected:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* text, std::streamsize size) override;
  int sync() override;

 private:
  std::streambuf& to_;
  std::string unfinished_;  // the begin of a character, at most three bytes
};

// Writes a control sequence of the program's own: a colour, or the erasing of a line.
void write_control(std::ostream& out, std::string_view sequence);

}  // namespace trireme
