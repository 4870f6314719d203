#pragma once

#include <string>
#include <vector>

#include "comm/group.h"

namespace trireme {

// Gathers every rank's text on all ranks. Meant for rare exchanges, such as the parts of a
// checkpoint's index.
std::vector<std::string> gather_text(Group& group, const std::string& text,
                                     CallSite site = CallSite::current());

}  // namespace trireme
