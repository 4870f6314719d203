#pragma once

#include <vector>

// Values of a sorted list, without sorting all of it. A list must not be empty.
namespace trireme {

double upper_median(std::vector<double> values);  // the later one of two middle values
double lower_median(std::vector<double> values);  // the earlier one of two middle values
// A quarter of the values is below. Other programs only make a measured time longer, so this is
// closer than the median to the time without them.
double lower_quartile(std::vector<double> values);

}  // namespace trireme
