#include "nn/query_window.h"

#include <algorithm>

#include "graph/op_tensors.h"

namespace trireme {
namespace {

// position_of(t) returns the position of token t in its sequence.
template <typename PositionOf>
TensorRef first_keys(const TensorRef& first_of_document, TensorRef first, int64_t num_tokens,
                     int64_t window, PositionOf&& position_of) {
  first.shape = Shape{num_tokens};
  int32_t* out = first.as<int32_t>();
  const int32_t* document = first_of_document ? first_of_document.as<int32_t>() : nullptr;
  for (int64_t t = 0; t < num_tokens; ++t) {
    const int64_t earliest = document != nullptr ? document[t] : 0;
    out[t] = static_cast<int32_t>(std::max(earliest, position_of(t) + 1 - window));
  }
  return first;
}

}  // namespace

QueryWindow::QueryWindow(const OpBinding& b)
    : window_(b.model().window),
      chunks_(b.model().chunks),
      first_T_(b.tensor(kFirstKeys)),
      first_N_(b.tensor(kFirstKeysOfWhole)) {}

Documents QueryWindow::operator()(const MicrobatchInfo& info, const SlotMemory& m,
                                  int64_t num_tokens) const {
  Documents documents = info.documents;
  if (window_ == 0) return documents;
  const int64_t local_len = chunks_.local_len();
  const bool is_generating = !info.cached_rows.empty();
  documents.first_T =
      first_keys(documents.first_T, m(first_T_), num_tokens, window_, [&](int64_t t) -> int64_t {
        return is_generating ? documents.position_T.as<int32_t>()[t]
                             : chunks_.position(t % local_len);
      });
  if (!first_N_) return documents;
  documents.first_N = first_keys(documents.first_N, m(first_N_), num_tokens * chunks_.cp, window_,
                                 [&](int64_t t) { return t % chunks_.seq_len; });
  return documents;
}

AttentionShape attention_shape(const ModelShard& model, int64_t num_sequences) {
  return {.num_sequences = num_sequences,
          .q_len = model.local_len(),
          .kv_len = model.local_len(),
          .num_heads = model.heads,
          .num_kv_heads = model.kv_heads,
          .head_dim = model.key_dim(),
          .scale = static_cast<float>(model.logit_scale()),
          .value_dim = model.v_head_dim};
}

}  // namespace trireme
