#pragma once

namespace trireme {

// Parameter gradients: the first micro-batch of a sum overwrites, the others accumulate.
enum class Write { Overwrite, Accumulate };

}  // namespace trireme
