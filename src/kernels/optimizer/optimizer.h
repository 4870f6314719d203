#pragma once

#include "base/block_hash.h"
#include "base/box_elements.h"
#include "base/philox.h"
#include "device/stream.h"
#include "schema/norm_chunk.h"
#include "schema/norm_sum.h"
#include "tensor/matrix.h"

namespace trireme {

// Writes one double per chunk: the sum of squares of its gradients.
struct SquaredNormArgs {
  TensorRef grad_N;      // fp32 or bf16
  TensorRef partials_P;  // fp64 [ceil(N / kNormChunk)], written
};
void squared_norm_ref(Stream& stream, const SquaredNormArgs& args);
void check_squared_norm(const SquaredNormArgs& args);  // throws ContractError

// Computes the sum exactly (NormSum::Exact): any order and any split give the same integer.
struct ExactSquaredNormArgs {
  TensorRef grad_N;   // fp32 or bf16
  TensorRef words_W;  // int64 [kExactNormWords], added to
};
void exact_squared_norm_ref(Stream& stream, const ExactSquaredNormArgs& args);
void check_exact_squared_norm(const ExactSquaredNormArgs& args);  // throws ContractError

// The random words by which masters and moments in bf16 are rounded (round_stochastically): of each
// element of the whole parameter one word, so they are the same on every layout. Its lower half
// rounds the master and the first moment of AdamW, its upper half the second moment or the momentum
// of SGD. Rounding to nearest would stop them: it drops every change below 1/512 of the number.
struct RoundingWords {
  RngKey key;           // of the seed and the parameter
  uint64_t update = 0;  // number of this update
  int64_t first = 0;    // of the tensors' elements, in the box
  BoxElements box;      // what this rank holds of the parameter
};

// Where an update also writes a tensor, past the caches, and hashes it while it is in registers.
struct HashedWrite {
  float* to = nullptr;        // on a 64-byte border
  BlockHash* hash = nullptr;  // all elements are added
};
// The copies of an update's tensors; absent if `master.to` is null. The tensors are fp32 then, and
// their lengths whole blocks of kHashBlockBytes. One thread makes the whole update, and the copies
// may be read after end_stream_copies() on the same thread.
struct StateCopies {
  HashedWrite master, exp_avg, exp_avg_sq;
  // Whether the tensors themselves are updated, too. If not, only the copies have the new state.
  bool keeps_master = true;
  bool keeps_moments = true;
  explicit operator bool() const { return master.to != nullptr; }
};

// AdamW (Loshchilov and Hutter 2019), with g = grad * grad_scale:
// m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
// w = w - lr (m / correction1 / (sqrt(v / correction2) + eps) + weight_decay w)
// in fp32 and rounded once. It is element-wise, so any split of the range gives the same bits.
struct AdamWArgs {
  TensorRef grad_N;        // fp32 or bf16
  TensorRef master_N;      // fp32 or bf16, updated
  TensorRef exp_avg_N;     // fp32 or bf16, updated
  TensorRef exp_avg_sq_N;  // of the dtype of exp_avg, updated
  // bf16 or fp16: written from an fp32 master; absent if the parameter is its own master
  TensorRef param_N;
  float lr = 0.0f;
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float eps = 1e-8f;
  float weight_decay = 0.0f;
  float correction1 = 1.0f;  // 1 - beta1^t
  float correction2 = 1.0f;  // 1 - beta2^t
  float grad_scale = 1.0f;   // product of 1 / valid tokens, clipping and 1 / loss scale
  RoundingWords rounding = {};
  StateCopies copies = {};
};
void adamw_ref(Stream& stream, const AdamWArgs& args);
void check_adamw(const AdamWArgs& args);  // throws ContractError

// SGD with momentum as PyTorch defines it: u = momentum u + (g + weight_decay w); w = w - lr u.
// Dtypes are as those of AdamWArgs.
struct SgdArgs {
  TensorRef grad_N;
  TensorRef master_N;
  TensorRef momentum_N;  // updated; absent: no momentum
  TensorRef param_N;
  float lr = 0.0f;
  float momentum = 0.0f;
  float weight_decay = 0.0f;
  float grad_scale = 1.0f;
  RoundingWords rounding = {};
};
void sgd_ref(Stream& stream, const SgdArgs& args);
void check_sgd(const SgdArgs& args);  // throws ContractError

// The momentum of Muon. With g = grad * grad_scale:
// u = momentum * u + g, then update = momentum * u + g (Nesterov).
struct MomentumArgs {
  TensorRef grad_N;      // fp32 or bf16
  TensorRef momentum_N;  // u: fp32 or bf16, updated
  TensorRef update_N;    // fp32 or bf16, written
  float momentum = 0.0f;
  float grad_scale = 1.0f;
  RoundingWords rounding = {};  // of the momentum, by the upper half of the words
};
void momentum_ref(Stream& stream, const MomentumArgs& args);
void check_momentum(const MomentumArgs& args);  // throws ContractError

// out = diagonal * I + a_factor * a + b_factor * b. All matrices have one dtype (fp32 or bf16). The
// sum is made in fp32 and rounded once.
struct WeightedSumArgs {
  MatrixRef a_MN;
  MatrixRef b_MN;    // may be absent
  MatrixRef out_MN;  // written; may be a or b
  float a_factor = 1.0f;
  float b_factor = 0.0f;
  float diagonal = 0.0f;
};
void weighted_sum_ref(Stream& stream, const WeightedSumArgs& args);
void check_weighted_sum(const WeightedSumArgs& args);  // throws ContractError

}  // namespace trireme
