#pragma once

#include <string>

namespace trireme {

// A predicted step time and the measured one.
struct StepComparison {
  double predicted_s = 0.0;
  double measured_s = 0.0;
  double taken_by_others = 0.0;  // share of the cores that other processes took
  double share_left = 1.0;       // of the measured time in which the run could have its cores
};

// Compares both in one line, in the same words whichever is longer. Where other processes took some
// of the cores, the time of an undisturbed step is known only as a range, and the line says how far
// the prediction lies outside of it. Returns "" if one of the times is unknown.
std::string prediction_line(const StepComparison& step);

}  // namespace trireme
