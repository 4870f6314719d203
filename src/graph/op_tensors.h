#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/model_shard.h"
#include "graph/token_counts.h"

namespace trireme {

// How long a tensor of an op lives that is neither a value of the graph nor its gradient.
enum class Lifetime : uint8_t {
  Constant,    // written once, before the first step
  Kept,        // from F to W, under every policy of recomputation
  Forward,     // from F to W, or computed again
  WeightGrad,  // from B to W
  Scratch,     // within one call
};

struct OpTensor {
  std::string name;  // unique inside the unit; tensors of one name share memory
  Shape shape;
  DType dtype = DType::F32;
  Lifetime lifetime = Lifetime::Scratch;
};

// Int32 tensors of a micro-batch that say where its documents lie (StageShape::documents): they
// come from outside, like the tokens, to every stage.
struct DocumentTensor {
  const char* name;
  Shape shape;
};
inline constexpr const char* kDocumentFirst = "documents.first_T";
inline constexpr const char* kDocumentPosition = "documents.position_T";
inline constexpr const char* kDocumentFirstOfWhole = "documents.first_N";
std::vector<DocumentTensor> document_tensors(const TokenCounts& tokens, const StageShape& shape);

// Lists the tensors that an op of a fused graph needs beside its inputs and outputs: statistics,
// routes, scratch.
std::vector<OpTensor> op_tensors(const Graph& graph, const Op& op, const ModelShard& shard,
                                 const StageShape& shape);

// Returns the prefix of the names of the tensors of an op that looks ahead, which is that of its
// module, such as "mtp.0."; "" for other ops. The executor fills `tokens_T` and `targets_T`.
std::string ahead_prefix(const Op& op);
// The prefix of the module in which an op lies (module_prefix), or "". Tensors that the head has
// once for each module begin with it.
std::string prefix_of_module(const Op& op);

// ModelSpec::lora_scale for every channel between the matrices of an adapter, and that place
// itself.
inline constexpr const char* kAdapterScale = "lora.scale_r";
inline constexpr const char* kAdapterInner = "lora.inner_Tr";

// The position of the first key that a query sees in a window (ModelSpec::window): for the tokens
// of this rank, and for whole sequences if attention reads these.
inline constexpr const char* kFirstKeys = "window.first_T";
inline constexpr const char* kFirstKeysOfWhole = "window.first_N";

// The largest attention logit of every head, if StageShape::reports_logits.
inline constexpr const char* kLargestLogits = "logits.max_H";

// Scratch of a convolution's backward pass; it has so many bytes.
std::string convolution_scratch_name(int64_t bytes);

// The scratch in which sums over slices meet, by level of their tree.
std::string slice_sum_name(int level);

}  // namespace trireme
