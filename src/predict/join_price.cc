#include "predict/join_price.h"

#include <cstdlib>
#include <span>

#include "compile/collective_price.h"
#include "predict/data_links.h"
#include "predict/predict.h"

namespace trireme {
namespace {

double price_join(const RunPlan& plan, const RankPlan& rank, const Action& action,
                  const Hardware& hardware, CollectiveBytes& collective_bytes) {
  const MeshCoords& at = rank.coords;
  if (action.peer == at.pp) return 0.0;  // the other gradients are its own
  const AxisBytes sent =
      predict_traffic(plan, rank, std::span<const Action>(&action, 1), collective_bytes);
  const DataLinks links(plan, rank, hardware);
  const RankSpan line = span_on(hardware, plan.mesh, MeshAxis::Pp, at.pp);
  const RankSpan pair{2, line.stride * std::abs(action.peer - at.pp), line.nodes};
  const bool is_by_bucket = action.kind == ActionKind::JoinDirections;
  const size_t sums = is_by_bucket ? rank.chunks[size_t(action.chunk)].buckets.size() : 1;
  return vectors_s(hardware, pair, VectorMove::AllReduce,
                   links.grad_bytes(double(bytes_on_axis(sent, "pp"))), double(sums)) +
         vectors_s(hardware, links.replicas(), VectorMove::AllGather,
                   links.grad_bytes(double(bytes_on_axis(sent, "dp"))));
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
