#include "cli/progress_line.h"

#include <unistd.h>

#include <algorithm>
#include <ostream>

#include "cli/printable.h"
#include "cli/terminal.h"

namespace trireme {
namespace {

constexpr std::string_view kSeparator = " | ";
constexpr std::string_view kEraseLine = "\r\x1b[2K";
constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kNormal = "\x1b[0m";

bool begins_code_point(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

std::string cut(const std::string& text, int columns) {
  std::string out;
  int width = 0;
  for (const char c : text) {
    if (begins_code_point(c) && ++width > columns) break;
    out += c;
  }
  return out;
}

}  // namespace

int display_width(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), begins_code_point));
}

std::string fit_parts(const std::vector<std::string>& parts, int columns) {
  if (parts.empty() || columns <= 0) return "";
  std::string line = cut(parts[0], columns);
  int width = display_width(line);
  for (size_t i = 1; i < parts.size(); ++i) {
    const int more = static_cast<int>(kSeparator.size()) + display_width(parts[i]);
    if (width + more > columns) break;
    line += kSeparator;
    line += parts[i];
    width += more;
  }
  return line;
}

ProgressLine::ProgressLine(std::ostream& err, Style style) : err_(err), style_(std::move(style)) {}

ProgressLine::~ProgressLine() { finish(); }

void ProgressLine::update(const std::vector<std::string>& parts) {
  parts_ = parts;
  is_shown_ = false;
  if (style_.is_terminal) {
    draw();
    return;
  }
  const double now = style_.now_s();
  if (has_logged_ && now - last_log_s_ < style_.log_interval_s) return;
  last_log_s_ = now;
  has_logged_ = true;
  is_shown_ = true;
  err_ << fit_parts(parts_, 1 << 20) << '\n' << std::flush;
}

void ProgressLine::print(std::string_view line) {
  erase();
  err_ << line << '\n';
  if (style_.is_terminal && !parts_.empty()) draw();
  err_ << std::flush;
}

void ProgressLine::finish() {
  if (is_drawn_) {
    err_ << '\n' << std::flush;
    is_drawn_ = false;
  } else if (!is_shown_ && !style_.is_terminal) {
    err_ << fit_parts(parts_, 1 << 20) << '\n' << std::flush;
  }
  is_shown_ = true;
  parts_.clear();
}

// Leaves the last column free, because some terminals wrap as soon as it is filled.
void ProgressLine::draw() {
  const std::string line = fit_parts(parts_, style_.columns() - 1);
  write_control(err_, kEraseLine);
  const size_t end_of_first = std::min(parts_.empty() ? 0 : parts_[0].size(), line.size());
  if (style_.color) {
    write_control(err_, kBold);
    err_ << line.substr(0, end_of_first);
    write_control(err_, kNormal);
  }
  err_ << (style_.color ? line.substr(end_of_first) : line) << std::flush;
  is_drawn_ = true;
  is_shown_ = true;
}

void ProgressLine::erase() {
  if (is_drawn_) write_control(err_, kEraseLine);
  is_drawn_ = false;
}

ProgressLine::Style standard_progress_style(bool is_terminal, bool color) {
  ProgressLine::Style style;
  style.is_terminal = is_terminal;
  style.color = color;
  style.columns = [] { return terminal_columns(STDERR_FILENO); };
  style.now_s = [] {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(now).count();
  };
  return style;
}

}  // namespace trireme
