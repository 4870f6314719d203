#pragma once

#include <span>
#include <vector>

#include "checkpoint/held_part.h"
#include "checkpoint/scrub.h"

namespace trireme {

// Verifies and repairs the parts of one save, each of another host. `scrubbed` has the folder of
// each part, and gets what was found.
void scrub_parts(std::span<const FoundPart> parts, std::span<ScrubbedFolder* const> scrubbed,
                 const ScrubOptions& options);

}  // namespace trireme
