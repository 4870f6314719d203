#include "kernels/argument_checks.h"
#include "kernels/loss/cross_entropy.h"

namespace trireme {

void check_cross_entropy(const CrossEntropyArgs& args) {
  const MatrixRef& logits_TV = args.logits_TV;
  check_matrix("logits", logits_TV, logits_TV.rows, logits_TV.cols, DType::F32);
  check_argument(logits_TV.cols <= kMaxVocabSize, "a vocabulary has at most 1048576 tokens");
  check_tensor("targets", args.targets_T, logits_TV.rows, DType::I32);
  check_tensor("loss", args.loss_T, logits_TV.rows, DType::F32);
  const auto* target_T = static_cast<const int32_t*>(args.targets_T.data);
  bool inside = true;
  for (int64_t t = 0; t < logits_TV.rows; ++t) {
    inside &= target_T[t] == kIgnoredTarget || (target_T[t] >= 0 && target_T[t] < logits_TV.cols);
  }
  check_argument(inside, "every target is a column of the logits or kIgnoredTarget");
  const MatrixRef& dlogits_TV = args.dlogits_TV;
  if (!dlogits_TV) return;
  check_float("dlogits", dlogits_TV);
  check_matrix("dlogits", dlogits_TV, logits_TV.rows, logits_TV.cols, dlogits_TV.dtype);
  const int64_t row_bytes = dlogits_TV.stride * size_of(dlogits_TV.dtype);
  check_argument(
      dlogits_TV.data != logits_TV.data || row_bytes == logits_TV.stride * size_of(DType::F32),
      "dlogits that share the logits' memory share where rows begin");
}

}  // namespace trireme
