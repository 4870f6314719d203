#pragma once

#include <string>

#include "planner/roofline.h"

namespace trireme {

// A picture that needs no other file: the roof of the device on logarithmic axes with its ridge
// point, a numbered point for every op and pass, and beside it the list of the numbers. Readable on
// light and dark backgrounds. `title` names the model.
std::string draw_roofline(const Roofline& roof, const std::string& title);

}  // namespace trireme
