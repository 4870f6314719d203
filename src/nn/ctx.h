#pragma once

#include <span>

#include "comm/group.h"
#include "device/stream.h"
#include "kernels/kernel_table.h"
#include "nn/cached_rows.h"
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
// Generation sets position_T alone: the position of each token in its sequence. Legend: T this
// rank's tokens, N those of whole sequences.
struct Documents {
  TensorRef first_T;     // the position in its sequence of the document's first token; absent: 0
  TensorRef position_T;  // in the document
  TensorRef first_N;     // where whole sequences are attended (ContextStrategy::AllToAll)
};

// Which samples a micro-batch holds, for everything that is keyed by sample.
struct MicrobatchInfo {
  int64_t num_sequences = 0;
  uint64_t first_sample = 0;  // global number of its first sequence
  bool training = true;       // false: no dropout, no gradients
  bool is_routed = false;     // tokens go to the experts that the saved tensors name already
  Documents documents = {};   // absent: a sequence is one document
  // Generation: the sequences that the rows continue; together all rows, in their order.
  std::span<const CachedRows> cached_rows = {};
};

}  // namespace trireme
