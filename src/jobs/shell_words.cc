#include "jobs/shell_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <optional>

#include "base/input_limits.h"
#include "jobs/shell_arithmetic.h"

namespace trireme {
namespace {

constexpr size_t kMostWordBytes = size_t{1} << 16;
constexpr size_t kMostWords = size_t{1} << 16;
constexpr size_t kMostBytes = size_t{1} << 22;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

bool is_name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Returns the length of NAME in "NAME=..." and "NAME+=...", or 0.
size_t assigned_name(std::string_view word) {
  size_t end = 0;
  while (end < word.size() && is_name_char(word[end])) ++end;
  if (end == 0 || std::isdigit(static_cast<unsigned char>(word[0]))) return 0;
  const std::string_view rest = word.substr(end);
  return rest.starts_with("=") || rest.starts_with("+=") ? end : 0;
}

class ShellReader {
 public:
  ShellReader(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  Result<std::vector<ShellCommand>> read() {
    while (at_ < text_.size() && problem_.empty()) read_command();
    if (!problem_.empty()) {
      const int line = problem_line_ > 0 ? problem_line_ : line_;
      return usage(fmt::format("{}:{}: {}", source_, line, problem_));
    }
    return std::move(commands_);
  }

 private:
  // A word while it is read. One written word may become several by expansion, or none.
  struct Piece {
    std::vector<ShellWord> done;
    std::string text;
    bool is_begun = false;  // "" is a word, too
  };

  void read_command() {
    ShellCommand command;
    while (problem_.empty() && skip_blanks()) {
      if (command.empty() && assigned_name(text_.substr(at_)) > 0) {
        read_assignment();
        continue;
      }
      const char c = text_[at_];
      if (c == '(' || c == ')' || c == '<' || c == '>') {
        ++at_;
        continue;
      }
      for (ShellWord& word : read_word()) add(command, std::move(word));
      const bool is_prefix =
          command.size() == 1 && (command[0].text == "export" || command[0].text == "local" ||
                                  command[0].text == "declare");
      if (is_prefix) command.clear();
    }
    if (at_ < text_.size() && text_[at_] == '\n') ++line_;
    ++at_;
    if (!command.empty()) commands_.push_back(std::move(command));
  }

  void add(std::vector<ShellWord>& words, ShellWord word) {
    if (++num_words_ > kMostWords) problem_ = "the script has too many words";
    if (problem_.empty()) words.push_back(std::move(word));
  }

  // Skips blanks, comments and escaped ends of lines. Returns false at the end of a command.
  bool skip_blanks() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') {
        at_ += 2;
        ++line_;
      } else if (c == '\\' && text_.substr(at_ + 1, 2) == "\r\n") {
        at_ += 3;
        ++line_;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++at_;
      } else if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else {
        return c != '\n' && c != ';' && c != '&' && c != '|';
      }
    }
    return false;
  }

  void read_assignment() {
    const size_t length = assigned_name(text_.substr(at_));
    const std::string name(text_.substr(at_, length));
    at_ += length;
    const bool appends = text_[at_] == '+';
    at_ += appends ? 2 : 1;
    if (at_ < text_.size() && text_[at_] == '(') {
      ++at_;
      std::vector<ShellWord> words = read_array();
      std::vector<ShellWord>& value = variables_[name];
      if (!appends) value.clear();
      std::move(words.begin(), words.end(), std::back_inserter(value));
      return;
    }
    std::string text;
    const bool has_value = at_ < text_.size() && !is_space(text_[at_]);
    if (has_value) {
      for (const ShellWord& part : read_word()) text += (text.empty() ? "" : " ") + part.text;
    }
    std::vector<ShellWord>& value = variables_[name];
    if (appends && !value.empty()) text = value[0].text + text;
    if (text.size() > kMostWordBytes) problem_ = "the value of " + name + " is too long";
    value = {{std::move(text), line_}};
  }

  std::vector<ShellWord> read_array() {
    std::vector<ShellWord> words;
    const int begin_line = line_;
    while (at_ < text_.size() && problem_.empty()) {
      if (!skip_blanks() && at_ < text_.size()) {
        line_ += text_[at_] == '\n';
        ++at_;
        continue;
      }
      if (at_ >= text_.size()) break;
      const char c = text_[at_];
      if (c == ')' || c == '(' || c == '<' || c == '>') {
        ++at_;
        if (c == ')') return words;
        continue;
      }
      for (ShellWord& word : read_word()) add(words, std::move(word));
    }
    if (problem_.empty()) {
      problem_ = "the array that begins here has no ): add it";
      line_ = begin_line;
    }
    return words;
  }

  std::vector<ShellWord> read_word() {
    const size_t begin = at_;
    Piece piece;
    while (at_ < text_.size() && problem_.empty()) {
      const char c = text_[at_];
      if (is_space(c) || std::string_view(";&|()<>").find(c) != std::string_view::npos) break;
      if (c == '\\') {
        const char next = at_ + 1 < text_.size() ? text_[at_ + 1] : '\n';
        if (next == '\n' || next == '\r') break;  // skip_blanks counts the line
        append(piece, std::string(1, next));
        at_ += 2;
      } else if (c == '\'') {
        read_plain_quotes(piece);
      } else if (c == '"') {
        read_quotes(piece);
      } else if (c == '$' || c == '`') {
        expand(piece, false);
      } else {
        append(piece, std::string(1, c));
        ++at_;
      }
    }
    if (at_ == begin) ++at_;  // a stray character that starts no word
    if (piece.is_begun) piece.done.push_back({std::move(piece.text), line_});
    return std::move(piece.done);
  }

  void append(Piece& piece, std::string_view text) {
    piece.is_begun = true;
    num_bytes_ += text.size();
    if (piece.text.size() + text.size() > kMostWordBytes || num_bytes_ > kMostBytes) {
      problem_ = "a word is too long";
    } else {
      piece.text += text;
    }
  }

  void read_plain_quotes(Piece& piece) {
    const size_t end = text_.find('\'', at_ + 1);
    if (end == std::string_view::npos) {
      problem_ = "a ' is not closed: add the second one";
      return;
    }
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    append(piece, inside);
    line_ += static_cast<int>(std::count(inside.begin(), inside.end(), '\n'));
    at_ = end + 1;
  }

  void read_quotes(Piece& piece) {
    piece.is_begun = true;
    for (++at_; at_ < text_.size() && problem_.empty();) {
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return;
      }
      if (c == '$' || c == '`') {
        expand(piece, true);
        continue;
      }
      line_ += c == '\n';
      if (c == '\\' && at_ + 1 < text_.size()) {
        const char next = text_[++at_];
        line_ += next == '\n';
        if (next != '\n') append(piece, std::string(1, next));
      } else {
        append(piece, std::string(1, c));
      }
      ++at_;
    }
    if (problem_.empty()) problem_ = "a \" is not closed: add the second one";
  }

  std::optional<std::string> scalar(const std::string& name) const {
    const auto found = variables_.find(name);
    if (found == variables_.end() || found->second.empty()) return std::nullopt;
    return found->second[0].text;
  }

  // Returns the place after the bracket that closes the one at `open`. It is a problem if none
  // does.
  size_t after_bracket(size_t open, char left, char right) {
    int depth = 0;
    for (size_t i = open; i < text_.size(); ++i) {
      depth += (text_[i] == left) - (text_[i] == right);
      if (depth == 0) return i + 1;
    }
    if (problem_.empty()) {
      problem_ = fmt::format("a ${} is not closed: add the {}", left, right);
      problem_line_ = line_;
    }
    return text_.size();
  }

  void expand(Piece& piece, bool is_quoted) {
    const size_t begin = at_;
    const std::string_view rest = text_.substr(at_);
    if (rest[0] == '`') {
      at_ = std::min(text_.find('`', at_ + 1), text_.size() - 1) + 1;
    } else if (rest.starts_with("$((")) {
      at_ = after_bracket(at_ + 1, '(', ')');
      const std::string_view inside = text_.substr(begin + 3, std::max<size_t>(at_ - begin, 5) - 5);
      const auto value =
          shell_arithmetic(inside, [this](const std::string& name) { return scalar(name); });
      if (value) return append(piece, std::to_string(*value));
    } else if (rest.starts_with("$(")) {
      at_ = after_bracket(at_ + 1, '(', ')');
    } else if (rest.starts_with("${")) {
      at_ = after_bracket(at_ + 1, '{', '}');
      const std::string_view inside = text_.substr(begin + 2, std::max<size_t>(at_ - begin, 3) - 3);
      if (expand_braces(piece, inside, is_quoted)) return;
    } else {
      for (++at_; at_ < text_.size() && is_name_char(text_[at_]);) ++at_;
      const std::string name(text_.substr(begin + 1, at_ - begin - 1));
      if (const auto value = scalar(name)) return insert(piece, *value, is_quoted);
      if (name.empty() && at_ < text_.size() && text_[at_] == '@') ++at_;
    }
    const std::string_view as_written = text_.substr(begin, at_ - begin);
    line_ += static_cast<int>(std::count(as_written.begin(), as_written.end(), '\n'));
    append(piece, as_written);
  }

  // ${NAME}, ${NAME[@]} and ${NAME:-value}. Returns false if NAME has no value.
  bool expand_braces(Piece& piece, std::string_view inside, bool is_quoted) {
    size_t end = 0;
    while (end < inside.size() && is_name_char(inside[end])) ++end;
    const std::string name(inside.substr(0, end));
    const std::string_view rest = inside.substr(end);
    const auto found = variables_.find(name);
    if (rest == "[@]" || rest == "[*]") {
      if (found == variables_.end()) return false;
      for (const ShellWord& word : found->second) {
        num_bytes_ += word.text.size();
        if (num_bytes_ > kMostBytes) problem_ = "the script's words are too long";
        if (problem_.empty()) add(piece.done, word);
      }
      if (piece.text.empty()) piece.is_begun = false;  // the quotes alone are no word
      return true;
    }
    if (const auto value = scalar(name); value && (!value->empty() || rest.empty())) {
      insert(piece, *value, is_quoted);
      return true;
    }
    for (const std::string_view otherwise : {":-", ":=", "-"}) {
      if (!rest.starts_with(otherwise)) continue;
      insert(piece, std::string(rest.substr(otherwise.size())), is_quoted);
      return true;
    }
    return false;
  }

  // The shell splits a value without quotes at its spaces.
  void insert(Piece& piece, const std::string& value, bool is_quoted) {
    if (is_quoted) return append(piece, value);
    for (const char c : value) {
      if (!is_space(c)) {
        append(piece, std::string(1, c));
      } else if (piece.is_begun) {
        add(piece.done, {std::move(piece.text), line_});
        piece.text.clear();
        piece.is_begun = false;
      }
    }
  }

  std::string_view text_;
  const std::string& source_;
  size_t at_ = 0;
  int line_ = 1;
  size_t num_words_ = 0;
  size_t num_bytes_ = 0;  // of all words, variables included
  std::map<std::string, std::vector<ShellWord>> variables_;
  std::vector<ShellCommand> commands_;
  std::string problem_;
  int problem_line_ = 0;  // 0: where reading has ended
};

}  // namespace

Result<std::vector<ShellCommand>> parse_shell(std::string_view text, const std::string& source) {
  if (static_cast<int64_t>(text.size()) > limits::kConfigFileBytes) {
    return usage(fmt::format("{}: {} bytes; a launch script has at most {}", source, text.size(),
                             limits::kConfigFileBytes));
  }
  return ShellReader(text, source).read();
}

}  // namespace trireme
