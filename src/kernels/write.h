#pragma once

namespace trireme {

// How parameter gradients are written: the first micro-batch of a sum overwrites, the others
// accumulate.
enum class Write { Overwrite, Accumulate };

}  // namespace trireme
