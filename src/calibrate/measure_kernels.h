#pragma once

#include "kernels/kernel_table.h"
#include "predict/fit_operators.h"
#include "schema/ceilings.h"

namespace trireme {

// Measures products and attention at the shapes of models, in fp32 and bf16, and kernels that are
// limited by memory, from a few numbers to more than the caches hold. The fastest call of each
// counts: it is made again until the fastest ones agree, for at most `most_seconds`.
MeasuredOperators measure_kernels(const KernelTable& kernels, Stream& stream, double most_seconds);

// Sizes of the kernels of a run.
struct KernelSizes {
  DType compute = DType::F32;
  int64_t tokens = 0;  // of a micro-batch
  int64_t d_model = 0, d_ff = 0;
  int64_t heads = 0, seq_len = 0, head_dim = 0;
  int64_t bytes = 0;  // of all data of a rank
};

// Measures a few kernels of about these sizes in some 50 ms: three products of a layer, attention,
// and the sum of vectors, of a few numbers and of many. Returns what they reach of these peaks.
Ceilings measure_run_kernels(const KernelTable& kernels, Stream& stream, const KernelSizes& sizes,
                             const ComputeCeilings& peaks);

}  // namespace trireme
