#pragma once

#include <string>
#include <string_view>

#include "sweep/sweep_record.h"

namespace trireme {

// A word as a shell reads it back: in single quotes unless it consists of plain characters.
std::string shell_word(std::string_view word);

// "--set optim.lr=0.001 --set ..." of a point.
std::string set_options(const SweepSpec& spec, const SweepPoint& point);

// The command that makes the run of a trial again, by the trireme at the path `program`. For a
// range test it trains with the suggested rate; "" if there is none.
std::string repeat_command(const SweepRecord& record, size_t index,
                           std::string_view program = "trireme");

}  // namespace trireme
