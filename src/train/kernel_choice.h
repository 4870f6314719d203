#pragma once

#include "base/result.h"
#include "kernels/kernel_table.h"
#include "schema/run_config_choices.h"

namespace trireme {

// The kernels to run and the instruction set whose ceiling they are measured against.
struct KernelChoice {
  const KernelTable* kernels = nullptr;
  Isa isa = Isa::Avx2;
};

// The kernels of run.isa. Auto takes the strongest set that this processor has. A set that it does
// not have is refused.
Result<KernelChoice> choose_kernels(IsaChoice isa);

}  // namespace trireme
