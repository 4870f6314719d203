#pragma once

#include <string>

#include "layout_case.h"

namespace trireme {

// Checks that losses, every gradient and every weight have the bits of reference_of, and that
// memory and traffic are as planned.
void expect_the_bits_of_one_rank(const Case& c);

// Checks that losses and router losses of all steps, and every gradient of the first step, are
// within the bound for other orders of summation. Returns "" or what is not.
std::string beyond_bounds(const LayoutRun& split, const LayoutRun& whole);
void expect_near(const LayoutRun& split, const LayoutRun& whole);

}  // namespace trireme
