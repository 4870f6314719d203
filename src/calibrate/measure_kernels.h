#pragma once

#include "kernels/kernel_table.h"
#include "predict/fit_operators.h"

namespace trireme {

// Measures products and attention at the shapes of models, in fp32 and bf16, norms and activations
// whose data lie in caches, and kernels that are limited by memory, from a few numbers to more than
// the caches hold. Weights of products and what they write lie in memory, as in a step. The fastest
// call of each counts: it is made again until the fastest ones agree, for at most `most_seconds`.
MeasuredOperators measure_kernels(const KernelTable& kernels, Stream& stream, double most_seconds);

}  // namespace trireme
