#pragma once

#include "comm/group.h"

namespace trireme {

// What a rank has where a collective that moves data is not made: its own part, and zeros for those
// of others. Tests of what notices that (CallHook).
void leave_out(const CollectiveArgs& args, int rank, int size);

}  // namespace trireme
