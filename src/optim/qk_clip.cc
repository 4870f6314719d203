#include "optim/qk_clip.h"

#include <algorithm>
#include <cmath>

#include "base/stochastic_rounding.h"

namespace trireme {
namespace {

void scale_elements(const QkClip::Weights& weights, int64_t begin, int64_t end, float factor) {
  if (weights.master_N.dtype == DType::F32) {
    float* master = weights.master_N.as<float>();
    for (int64_t e = begin; e < end; ++e) master[e] *= factor;
    return;
  }
  bf16* master = weights.master_N.as<bf16>();
  for (int64_t e = begin; e < end; ++e) {
    const auto element = uint64_t(weights.box.in_whole(weights.first + e));
    master[e] = round_stochastically(float(master[e]) * factor,
                                     rounding_word(weights.key, weights.update, element));
  }
}

}  // namespace

float QkClip::logit_factor(float largest) const {
  if (!(largest > limit_) || !std::isfinite(largest)) return 1.0f;
  return static_cast<float>(limit_ / double(largest));
}

float QkClip::smallest_logit_factor(int64_t kv_head, Logits max_H) const {
  const int64_t group = heads_ / kv_heads_;
  const auto first = max_H.begin() + kv_head * group;
  return logit_factor(*std::max_element(first, first + group));
}

float QkClip::factor(LogitSide side, int64_t head, Logits max_H) const {
  const int64_t kv_head = side == LogitSide::Key ? head : head / (heads_ / kv_heads_);
  const float of_key = std::sqrt(smallest_logit_factor(kv_head, max_H));
  return side == LogitSide::Key ? of_key : logit_factor(max_H[size_t(head)]) / of_key;
}

float QkClip::factor_of_shared(int64_t head, Logits max_H) const {
  return logit_factor(max_H[size_t(head)]);
}

void QkClip::scale(Ctx& ctx, const Weights& weights, Logits max_H) const {
  if (weights.side == LogitSide::None) return;
  const int64_t count = weights.master_N.num_elements(), cols = weights.box.cols;
  const int64_t width = width_ + (weights.side == LogitSide::Query ? shared_width_ : 0);
  bool is_changed = false;
  for (int64_t begin = 0; begin < count;) {
    const int64_t row = (weights.first + begin) / cols;  // of the box
    const int64_t whole_row = weights.box.in_whole(row * cols) / weights.box.whole_cols;
    const int64_t head = whole_row / width, row_of_head = whole_row % width;
    const bool is_shared = row_of_head >= width_;
    const int64_t rows_left = (is_shared ? width : width_) - row_of_head;
    const int64_t end = std::min(count, (row + rows_left) * cols - weights.first);
    const float factor =
        is_shared ? factor_of_shared(head, max_H) : this->factor(weights.side, head, max_H);
    if (factor != 1.0f) {
      scale_elements(weights, begin, end, factor);
      is_changed = true;
    }
    begin = end;
  }
  if (is_changed && weights.param_N) {
    ctx.kernels.convert(ctx.stream, {weights.master_N, weights.param_N});
  }
}

}  // namespace trireme
