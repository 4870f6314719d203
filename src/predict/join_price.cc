#include "predict/join_price.h"

#include <cstdlib>
#include <span>

#include "compile/collective_price.h"
#include "predict/predict.h"

namespace trireme {
namespace {

double price_join(const RunPlan& plan, const RankPlan& rank, const Action& action,
                  const Hardware& hardware, CollectiveBytes& collective_bytes) {
  const MeshCoords& at = rank.coords;
  if (action.peer == at.pp) return 0.0;  // the other gradients are its own
  const AxisBytes sent =
      predict_traffic(plan, rank, std::span<const Action>(&action, 1), collective_bytes);
  // Other trainers may sum gradients of another dtype.
  const double factor =
      double(hardware.practice.bytes_of_grad(plan.shape.grad)) / double(size_of(plan.shape.grad));
  const RankSpan line = span_on(hardware, plan.mesh, MeshAxis::Pp, at.pp);
  const RankSpan pair{2, line.stride * std::abs(action.peer - at.pp), line.nodes};
  const bool is_by_bucket = action.kind == ActionKind::JoinDirections;
  const size_t sums = is_by_bucket ? rank.chunks[size_t(action.chunk)].buckets.size() : 1;
  const RankSpan dp = span_on(hardware, plan.mesh, MeshAxis::Dp, at.pp);
  const int64_t shards = rank.zero.level == 0 ? 1 : rank.zero.degree;
  const RankSpan copies{plan.mesh.dp_at(at.pp) / shards, dp.stride * shards, dp.nodes};
  return vectors_s(hardware, pair, VectorMove::AllReduce,
                   factor * double(bytes_on_axis(sent, "pp")), double(sums)) +
         vectors_s(hardware, copies, VectorMove::AllGather,
                   factor * double(bytes_on_axis(sent, "dp")));
}

}  // namespace

double price_joins(const RunPlan& plan, const RankPlan& rank, const Hardware& hardware,
                   CollectiveBytes& collective_bytes) {
  double seconds = 0.0;
  for (const Action& action : rank.program) {
    if (!joins_ranks(action.kind)) continue;
    seconds += price_join(plan, rank, action, hardware, collective_bytes);
  }
  return seconds;
}

}  // namespace trireme
