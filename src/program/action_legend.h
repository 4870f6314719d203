#pragma once

#include <string>

#include "schema/program.h"

namespace trireme {

// Says in one line what the codes of the program's text (to_string in schema/program.h) mean: every
// kind of action and every mark that occurs in it, and no other. `num_chunks`: of the rank.
std::string action_legend(const Program& program, int num_chunks);

}  // namespace trireme
