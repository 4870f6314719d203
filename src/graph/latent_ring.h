#pragma once

#include "graph/graph.h"
#include "graph/model_shard.h"
#include "schema/stage_shape.h"

namespace trireme {

// For training over a ring of context parallelism: attention whose keys and values are products of
// a latent becomes one op on the latent, if the latent and the part that all heads share have fewer
// columns than the keys and values of this rank's heads. Then the ring passes these on, and every
// rank makes keys and values from them again. An expansion with adapters or biases, and attention
// to chosen keys, stay as they are.
Graph ring_of_latents(Graph stacked, const StageShape& layout);

// Returns how many numbers of a token go round the ring in a layer: keys and values of this rank's
// heads, or what they are made from.
int64_t ring_columns(const Graph& layer, const ModelShard& shard);

}  // namespace trireme
