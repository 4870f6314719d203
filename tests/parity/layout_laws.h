#pragma once

#include <string>

#include "layout_case.h"

namespace trireme {

// Losses, every gradient and weight have the bits of reference_of, memory and traffic are as
// planned.
void expect_the_bits_of_one_rank(const Case& c);

// Losses and routers' losses of all steps and every gradient of the first within the bound of other
// orders of sums: "", or what is not.
std::string beyond_bounds(const LayoutRun& split, const LayoutRun& whole);
void expect_near(const LayoutRun& split, const LayoutRun& whole);

}  // namespace trireme
