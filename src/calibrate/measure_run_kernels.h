#pragma once

#include <functional>

#include "kernels/kernel_table.h"
#include "schema/ceilings.h"

namespace trireme {

// Sizes of the kernels of a run.
struct KernelSizes {
  DType compute = DType::F32;
  int64_t tokens = 0;  // of a micro-batch
  int64_t d_model = 0, d_ff = 0;
  int64_t vocab_size = 0;  // of the logits that a rank computes
  bool has_relu = false;   // whose kernels only move bytes
  int64_t heads = 0, seq_len = 0, head_dim = 0;
  int64_t bytes = 0;   // of all data of a rank
  int64_t params = 0;  // that a rank updates
};

// What the kernels of a rank reach while all ranks of its machine compute.
struct RunKernels {
  double matmul_share = 0.0;        // of the peak of the compute dtype
  double matmul_bytes_per_s = 0.0;  // at which products move operands and results
  double attention_share = 0.0;     // of the peak of the compute dtype
  double vector_share = 0.0;        // of the peak in fp32
  double memory_bytes_per_s = 0.0;  // of the update of the parameters
  double launch_s = 0.0;
};

// Measures a few kernels of about these sizes in some 200 ms. Operands that a step finds in memory
// lie in memory here, too. `together` waits for the other ranks of the machine, which measure the
// same kernels at the same time and so take their share of what ranks have in common.
RunKernels measure_run_kernels(const KernelTable& kernels, Stream& stream, const KernelSizes& sizes,
                               const ComputeCeilings& peaks, const std::function<void()>& together);

}  // namespace trireme
