#include "kernels/argument_checks.h"
#include "kernels/loss/cross_entropy.h"

namespace trireme {
namespace {

void check_logits(const MatrixRef& logits_TV, const TensorRef& targets_T) {
  check_matrix("logits", logits_TV, logits_TV.rows, logits_TV.cols, DType::F32);
  check_argument(logits_TV.cols <= kMaxVocabSize, "a vocabulary has at most 1048576 tokens");
  check_tensor("targets", targets_T, logits_TV.rows, DType::I32);
}

}  // namespace

void check_softmax_part(const SoftmaxPartArgs& args) {
  const MatrixRef& logits_TV = args.logits_TV;
  check_logits(logits_TV, args.targets_T);
  check_matrix("part", args.part_3T, 3, logits_TV.rows, DType::F32);
  const int64_t num_tokens = args.num_tokens > 0 ? args.num_tokens : logits_TV.cols;
  check_argument(args.first_token >= 0 && args.first_token + logits_TV.cols <= num_tokens,
                 "the columns lie inside the vocabulary");
  const auto* target_T = static_cast<const int32_t*>(args.targets_T.data);
  bool inside = true;
  for (int64_t t = 0; t < logits_TV.rows; ++t) {
    inside &= target_T[t] == kIgnoredTarget || (target_T[t] >= 0 && target_T[t] < num_tokens);
  }
  check_argument(inside, "every target is a token of the vocabulary or kIgnoredTarget");
}

void check_cross_entropy(const CrossEntropyArgs& args) {
  const MatrixRef& parts_3RT = args.parts_3RT;
  check_argument(parts_3RT.rows >= 3 && parts_3RT.rows % 3 == 0, "a part has three rows");
  check_matrix("parts", parts_3RT, parts_3RT.rows, parts_3RT.cols, DType::F32);
  check_tensor("targets", args.targets_T, parts_3RT.cols, DType::I32);
  check_tensor("loss", args.loss_T, parts_3RT.cols, DType::F32);
  check_tensor("max", args.max_T, parts_3RT.cols, DType::F32);
  check_tensor("sum", args.sum_T, parts_3RT.cols, DType::F32);
  if (args.hit_T) check_tensor("hit", args.hit_T, parts_3RT.cols, DType::F32);
}

void check_cross_entropy_gradient(const CrossEntropyGradientArgs& args) {
  const MatrixRef& logits_TV = args.logits_TV;
  check_logits(logits_TV, args.targets_T);
  check_tensor("max", args.max_T, logits_TV.rows, DType::F32);
  check_tensor("sum", args.sum_T, logits_TV.rows, DType::F32);
  const MatrixRef& dlogits_TV = args.dlogits_TV;
  check_float("dlogits", dlogits_TV);
  check_matrix("dlogits", dlogits_TV, logits_TV.rows, logits_TV.cols, dlogits_TV.dtype);
  const int64_t row_bytes = dlogits_TV.stride * size_of(dlogits_TV.dtype);
  check_argument(
      dlogits_TV.data != logits_TV.data || row_bytes == logits_TV.stride * size_of(DType::F32),
      "dlogits that share the logits' memory share where rows begin");
}

}  // namespace trireme
