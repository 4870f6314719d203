#pragma once

#include <chrono>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// A line that shows the progress of a run. On a terminal it is redrawn in place and never wraps: it
// asks for the width before every drawing and leaves out the last parts that do not fit. In a log
// it is an ordinary line from time to time.
class ProgressLine {
 public:
  struct Style {
    bool is_terminal = false;
    bool color = false;
    double log_interval_s = 10.0;   // between two lines of a log
    std::function<int()> columns;   // current width of the terminal
    std::function<double()> now_s;  // a monotonic clock
  };

  ProgressLine(std::ostream& err, Style style);
  ~ProgressLine();  // leaves the cursor at the start of a new line
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Sets the parts, the most important first: "step 12/400", "loss 5.43", ... Parts must not
  // contain control characters.
  void update(const std::vector<std::string>& parts);
  // Prints a permanent line above the progress line: an evaluation, a checkpoint, a warning.
  void print(std::string_view line);
  // Prints the newest parts as a permanent line.
  void finish();

 private:
  void draw();
  void erase();

  std::ostream& err_;
  Style style_;
  std::vector<std::string> parts_;
  bool is_drawn_ = false;  // the last line of the terminal is the progress line
  bool is_shown_ = true;   // the newest parts have been printed
  double last_log_s_ = 0.0;
  bool has_logged_ = false;
};

// Joins as many parts as fit into `columns` with " | ". If even the first is too wide, it is cut.
std::string fit_parts(const std::vector<std::string>& parts, int columns);

// Returns the columns that UTF-8 text needs, counting every code point as one.
int display_width(std::string_view text);

// The style for standard error of this process.
ProgressLine::Style standard_progress_style(bool is_terminal, bool color);

}  // namespace trireme
