#pragma once

#include "graph/model_shard.h"
#include "tensor/tensor.h"

namespace trireme {

// cos and sin of the positions of this rank's tokens and of every pair, with the model's scaling of
// long wavelengths (ModelSpec::rope_scaling).
void fill_rope_table(const ModelShard& model, const TensorRef& cosines_SD,
                     const TensorRef& sines_SD);

}  // namespace trireme
