#include "cli/progress_line.h"

#include <gtest/gtest.h>

#include <sstream>

namespace trireme {
namespace {

// A terminal with two controls: carriage return and "erase this line". `wrapped` is set as soon as
// a line is wider than the terminal.
struct Terminal {
  int columns = 80;
  std::vector<std::string> lines = {""};
  bool wrapped = false;

  void feed(const std::string& text) {
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\r') {
        continue;
      } else if (text.compare(i, 4, "\x1b[2K") == 0) {
        lines.back().clear();
        i += 3;
      } else if (text[i] == '\n') {
        lines.emplace_back();
      } else {
        lines.back() += text[i];
        wrapped = wrapped || display_width(lines.back()) >= columns;
      }
    }
  }
};

const std::vector<std::string> kParts = {"step 120/4000",
                                         "loss 3.1415",
                                         "2.08k tok/s",
                                         "MFU 71.3%",
                                         "ETA 4m 32s",
                                         "gr\xc3\xb6\xc3\x9f"
                                         "e"};

TEST(ProgressLine, NeverWrapsAtAnyWidthAndSurvivesAResize) {
  std::ostringstream err;
  Terminal terminal;
  ProgressLine::Style style;
  style.is_terminal = true;
  style.columns = [&] { return terminal.columns; };
  ProgressLine line(err, style);
  for (int round = 0; round < 2; ++round) {
    for (int columns = 1; columns <= 100; ++columns) {
      terminal.columns = round == 0 ? columns : 101 - columns;
      err.str("");
      line.update(kParts);
      terminal.feed(err.str());
      ASSERT_FALSE(terminal.wrapped) << columns;
      EXPECT_EQ(terminal.lines.size(), 1u);
    }
  }
}

TEST(ProgressLine, PrintedLinesStayAboveIt) {
  std::ostringstream err;
  Terminal terminal;
  ProgressLine::Style style;
  style.is_terminal = true;
  style.columns = [] { return 80; };
  {
    ProgressLine line(err, style);
    line.update({"step 1"});
    line.print("validation loss 2");
    line.update({"step 2"});
  }
  terminal.feed(err.str());
  EXPECT_EQ(terminal.lines, (std::vector<std::string>{"validation loss 2", "step 2", ""}));
}

TEST(ProgressLine, ALogGetsWholeLinesNowAndThenAndTheLastOne) {
  std::ostringstream err;
  double now = 0.0;
  ProgressLine::Style style;
  style.log_interval_s = 10.0;
  style.now_s = [&] { return now; };
  {
    ProgressLine line(err, style);
    for (int step = 1; step <= 25; ++step, now += 1.0) {
      line.update({"step " + std::to_string(step), "x"});
    }
    line.print("saved");
  }
  EXPECT_EQ(err.str(), "step 1 | x\nstep 11 | x\nstep 21 | x\nsaved\nstep 25 | x\n");
  EXPECT_EQ(err.str().find_first_of("\r\x1b"), std::string::npos);
}

TEST(ProgressLine, ColoursOnlyWhereAskedFor) {
  for (const bool color : {false, true}) {
    std::ostringstream err;
    ProgressLine::Style style;
    style.is_terminal = true;
    style.color = color;
    style.columns = [] { return 80; };
    ProgressLine(err, style).update({"a", "b"});
    EXPECT_EQ(err.str().find("\x1b[1m") != std::string::npos, color);
  }
}

}  // namespace
}  // namespace trireme
