#pragma once

#include <span>
#include <vector>

#include "device/buffer.h"
#include "nn/attention.h"
#include "nn/embedding.h"
#include "nn/feed_forward.h"
#include "nn/head.h"

namespace trireme {

// Generates from a whole model with a cache of keys and values. It reads the parameters where they
// lie and owns everything else; nothing is allocated after construction.
class Decoder {
 public:
  Decoder(const ModelSpec& model, const Frame& params, DType compute);

  // Forgets the context.
  void reset() { length_ = 0; }
  int64_t length() const { return length_; }
  int64_t capacity() const { return model_.seq_len; }

  // Puts 1 .. capacity() - length() tokens behind the context and returns the logits of the token
  // that follows, fp32 [V], valid until the next call.
  std::span<const float> append(Ctx& ctx, std::span<const int32_t> tokens);

 private:
  // Legend: n appended tokens, S capacity, K kv_width.
  struct Layer {
    AttentionBlock attention;
    FeedForward ffn;
    Linear q;
    Linear kv;
    MatrixRef cache_S_2K;  // keys, then values, of every position
  };

  void bind_experts(const Frame& frame);
  FeedForward::Saved ffn_of(int64_t n) const;
  void attend(Ctx& ctx, const Layer& layer, int64_t first_position, int64_t n);

  ModelShard model_;
  TensorTable table_;
  Buffer memory_;
  EmbeddingBlock embedding_;
  std::vector<Layer> layers_;
  HeadBlock head_;
  RopeTable rope_;
  TensorRef tokens_S_;
  MatrixRef e_SC_, x_SC_, h_SC_, q_SQ_, o_SQ_, x1_SC_, u_SU_, a_SF_, logits_1V_;
  TensorRef mean_S_, rstd_S_;
  FeedForward::Saved experts_;  // for S tokens; empty without experts
  int64_t length_ = 0;
};

}  // namespace trireme
