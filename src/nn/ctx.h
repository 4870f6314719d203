#pragma once

#include "comm/group.h"
#include "device/stream.h"
#include "kernels/kernel_table.h"
#include "tensor/tensor.h"

namespace trireme {

class ProductCheck;
class Turns;

// What every layer call needs: where kernels run, which they are, and the ranks that share the
// layer.
struct Ctx {
  Stream& stream;
  const KernelTable& kernels;
  Group& tp;
  Group& cp;                         // that share the sequences
  Group& ep;                         // that share the experts
  Group& batch;                      // whose images are one batch of batch norms
  float loss_scale = 1.0f;           // of all activations' and parameters' gradients
  ProductCheck* products = nullptr;  // checks every product (nn/product.h); null: none is checked
  Turns* turns = nullptr;            // of actions that run beside each other; null: there are none
};

// Where the documents of a micro-batch lie, if those of one sequence do not see each other; int32.
// Legend: T this rank's tokens, N those of whole sequences.
struct Documents {
  TensorRef first_T;     // the position in its sequence of the document's first token
  TensorRef position_T;  // in the document
  TensorRef first_N;     // where whole sequences are attended (ContextStrategy::AllToAll)
};

// Which samples a micro-batch holds, for everything that is keyed by sample.
struct MicrobatchInfo {
  int64_t num_sequences = 0;
  uint64_t first_sample = 0;   // global number of its first sequence
  bool training = true;        // false: no dropout, no gradients
  bool is_routed = false;      // tokens go to the experts that the saved tensors name already
  int64_t first_position = 0;  // of the sequence's tokens that are computed (generation)
  Documents documents = {};    // absent: a sequence is one document
};

}  // namespace trireme
