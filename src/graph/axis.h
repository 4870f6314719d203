#pragma once

#include <cstdint>
#include <string_view>

namespace trireme {

// An axis says what a dim of a tensor counts. A layout says which of these axes the ranks of a mesh
// axis share out (op_placement.h); no op names a mesh axis or a degree.
enum class Axis : uint8_t {
  Token,         // tokens of a micro-batch
  Visit,         // rows that experts read: one for each token and expert that it visits
  Sequence,      // sequences of a micro-batch
  Width,         // d_model
  Head,          // query heads
  KvHead,        // heads of keys and values
  HeadWidth,     // numbers of one head; with latents, of q and k without positions
  RopeWidth,     // numbers of q and k with positions, beside HeadWidth, with latents
  KeyWidth,      // both together
  ValueWidth,    // numbers of one head of v, with latents
  Latent,        // what keys and values are made from
  QueryLatent,   // what queries are made from
  Hidden,        // hidden units of an MLP, or of one expert
  DenseHidden,   // hidden units of the MLP of a layer without experts in a model with experts
  SharedHidden,  // hidden units of all shared experts
  Vocabulary,    // words of the vocabulary
  Position,      // learned positions
  Expert,        // experts of a layer
  Choice,        // experts that one token visits
  AdapterRank,   // inner axis of an adapter (model.lora_rank)
  SoftmaxPart,   // maximum, sum and target logit of the softmax over a part of the vocabulary
};
inline constexpr int kNumAxes = int(Axis::SoftmaxPart) + 1;

std::string_view name_of(Axis axis);  // "kv_head"
char letter_of(Axis axis);            // in the suffixes of tensors' names: T, R, n, C, H, ...

}  // namespace trireme
