#include "kernels/kernel_table.h"

namespace trireme {

namespace avx2 {
extern const KernelTable kKernels;
}
namespace avx512 {
extern const KernelTable kKernels;
}
namespace avx512_bf16 {
extern const KernelTable kKernels;
}

const KernelTable& cpu_kernels(Isa isa) {
  switch (isa) {
    case Isa::Avx2:
      return avx2::kKernels;
    case Isa::Avx512:
      return avx512::kKernels;
    case Isa::Avx512Bf16:
      return avx512_bf16::kKernels;
  }
  contract_failure(__FILE__, __LINE__, "isa", "an instruction set without kernels");
}

}  // namespace trireme
