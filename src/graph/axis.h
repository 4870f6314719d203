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
  IndexHead,     // heads of the indexer of sparse attention
  IndexWidth,    // numbers of one of them
  ChosenKey,     // keys that it chooses for a query
  Hidden,        // hidden units of an MLP, or of one expert
  DenseHidden,   // hidden units of the MLP of a layer without experts in a model with experts
  SharedHidden,  // hidden units of all shared experts
  Vocabulary,    // words of the vocabulary
  Position,      // learned positions
  Expert,        // experts of a layer
  Choice,        // experts that one token visits
  AdapterRank,   // inner axis of an adapter (model.lora_rank)
  SoftmaxPart,   // maximum, sum and target logit of the softmax over a part of the vocabulary
  Sample,        // images of a micro-batch
  Row,           // rows of pixels of an image
  Column,        // columns of pixels
  Channel,       // numbers of a pixel
  Feature,       // numbers of an image without rows and columns
  WindowRow,     // rows of pixels that an output pixel of a convolution reads
  WindowColumn,  // columns of them
};
inline constexpr int kNumAxes = int(Axis::WindowColumn) + 1;

// A dim of a tensor: what it counts, and how many there are in the whole tensor. Tokens, samples,
// visits and sequences are as many as a micro-batch has; their extent is 0.
struct Dim {
  Dim(Axis counted, int64_t number = 0, int64_t multiple = 1)  // NOLINT: an axis is a dim
      : axis(counted), extent(number), granule(multiple) {}

  Axis axis;
  int64_t extent;
  int64_t granule;        // parts of the dim are multiples of it
  bool is_whole = false;  // every tp rank has all of it, whatever the axis (layer_strategy.h)

  friend bool operator==(const Dim&, const Dim&) = default;
  friend bool operator==(const Dim& dim, Axis axis) { return dim.axis == axis; }
};

std::string_view name_of(Axis axis);  // "kv_head"
char letter_of(Axis axis);            // in the suffixes of tensors' names: T, R, n, C, H, ...

}  // namespace trireme
