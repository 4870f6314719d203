#include "nn/earlier_visits.h"

#include <algorithm>

namespace trireme {

// Each rank counts its own chunks; the sum of all tables is the whole one.
void EarlierVisits::count(Ctx& ctx, const ContextChunks& chunks, const MatrixRef& expert_Tk) const {
  if (!count_KE) return;
  const int64_t E = count_KE.cols, of_sequence = chunks.num_chunks();
  const auto whole_chunk = [&](int64_t c) {
    return c / 2 * of_sequence + (c % 2 == 0 ? chunks.rank : chunks.second_chunk());
  };
  ctx.kernels.count_visits(ctx.stream, {expert_Tk, before_cE});
  std::fill_n(count_KE.row<int32_t>(0), count_KE.rows * E, 0);
  for (int64_t c = 0; c < before_cE.rows; ++c) {
    std::copy_n(before_cE.row<int32_t>(c), E, count_KE.row<int32_t>(whole_chunk(c)));
  }
  ctx.cp.all_reduce({count_KE.data, DType::I32, Shape{count_KE.rows * E}});
  for (int64_t K = 1; K < count_KE.rows; ++K) {
    int32_t* sum_E = count_KE.row<int32_t>(K);
    for (int64_t e = 0; e < E; ++e) sum_E[e] += count_KE.row<int32_t>(K - 1)[e];
  }
  for (int64_t c = 0; c < before_cE.rows; ++c) {
    const int64_t K = whole_chunk(c);
    int32_t* before_E = before_cE.row<int32_t>(c);
    for (int64_t e = 0; e < E; ++e) before_E[e] = K == 0 ? 0 : count_KE.row<int32_t>(K - 1)[e];
  }
}

}  // namespace trireme
