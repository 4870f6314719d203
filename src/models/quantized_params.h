#pragma once

#include "base/result.h"
#include "device/stream.h"
#include "graph/param_table.h"
#include "memory/tensor_table.h"
#include "nn/frame.h"

namespace trireme {

// The parameters of a model that only generates, with the matrices of whole products in bytes
// (kernels/matmul/quantized_matmul.h). Those of experts, routers, lookups and latents, and all
// vectors, stay in the compute dtype; so do matrices whose rows are not whole blocks. A table that
// the head shares with the embedding is in both. There is memory for the weight of the largest
// product in the compute dtype, too.
TensorTable quantized_table(const ModelSpec& model, DType compute);

// Weights that such a table holds in bytes.
int64_t num_in_bytes(const TensorTable& table);

// Fills such a table. `params` has all parameters in the compute dtype. Returns a Damaged error
// that names the matrix if a weight is not finite, or too large for a scale in fp16.
Status quantize_params(const Frame& params, const TensorTable& table, const Frame& quantized,
                       Stream& stream);

}  // namespace trireme
