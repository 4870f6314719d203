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

// Resolves run.isa: "auto" takes the best instruction set of this processor, "reference" takes the
// reference kernels.
Result<KernelChoice> choose_kernels(const std::string& name);

}  // namespace trireme
