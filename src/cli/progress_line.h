#pragma once

#include <chrono>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// One line that says how far a run is. On a terminal it is redrawn in place and never wraps: the
// width is asked before every drawing, and what does not fit is left out from the end. In a log it
// is a plain line now and then.
class ProgressLine {
 public:
  struct Style {
    bool is_terminal = false;
    bool color = false;
    double log_interval_s = 10.0;   // between two lines of a log
    std::function<int()> columns;   // of the terminal, at this moment
    std::function<double()> now_s;  // a clock that does not go back
  };

  ProgressLine(std::ostream& err, Style style);
  ~ProgressLine();  // leaves the cursor at the start of a fresh line
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // The parts in the order of their importance: "step 12/400", "loss 5.43", ... Parts hold no
  // control characters.
  void update(const std::vector<std::string>& parts);
  // A line that stays, above the progress line: an evaluation, a checkpoint, a warning.
  void print(std::string_view line);
  // Shows the newest parts for good.
  void finish();

 private:
  void draw();
  void erase();

  std::ostream& err_;
  Style style_;
  std::vector<std::string> parts_;
  bool is_drawn_ = false;  // the terminal's last line is ours
  bool is_shown_ = true;   // the newest parts have been written
  double last_log_s_ = 0.0;
  bool has_logged_ = false;
};

// As many of the parts, joined by " | ", as fit into `columns`; the first is cut where even it is
// too wide.
std::string fit_parts(const std::vector<std::string>& parts, int columns);

// Columns that UTF-8 text takes, every code point counted as one.
int display_width(std::string_view text);

// Standard error of this process.
ProgressLine::Style standard_progress_style(bool is_terminal, bool color);

}  // namespace trireme
