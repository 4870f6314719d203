#pragma once

#include "memory/stage_tables.h"
#include "schema/model_spec.h"

namespace trireme {

// Bytes of parameters, gradients and optimizer state before ZeRO, and without alignment.
struct StoredBytes {
  double params = 0.0;
  double grads = 0.0;
  double optimizer = 0.0;
};
StoredBytes stored_bytes(const ModelSpec& model, const StageSpec& stage, const StageShape& shape);
// The smaller bytes of each kind.
StoredBytes smaller(const StoredBytes& a, const StoredBytes& b);

// Counts the bytes that the units at the ends of the model store on a rank.
struct EndBytes {
  StoredBytes embedding, head;
  StoredBytes both;  // on one rank; they may share a tied table

  StoredBytes of(bool has_embedding, bool has_head) const;
};
EndBytes end_bytes(const ModelSpec& model, const StageShape& shape);

// Lower bounds of the activations of a rank, in bytes.
struct ActivationBytes {
  double layer_saved = 0.0;    // by one layer for one micro-batch
  double head_saved = 0.0;     // by the head for one micro-batch
  double layer_scratch = 0.0;  // of a chunk with layers
  double head_scratch = 0.0;   // what the head adds to it
};
ActivationBytes activation_bytes(const ModelSpec& model, const StageShape& shape);
ActivationBytes smaller(const ActivationBytes& a, const ActivationBytes& b);

}  // namespace trireme
