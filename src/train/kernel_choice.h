#pragma once

#include <string>

#include "base/result.h"
#include "kernels/kernel_table.h"

namespace trireme {

// The kernels to run and the instruction set whose ceiling they are measured against.
struct KernelChoice {
  const KernelTable* kernels = nullptr;
  Isa isa = Isa::Avx2;
};

// run.isa: "auto" takes the strongest that this processor has; "reference" the oracle.
Result<KernelChoice> choose_kernels(const std::string& name);

}  // namespace trireme
