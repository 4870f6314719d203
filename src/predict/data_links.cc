#include "predict/data_links.h"

namespace trireme {

DataLinks::DataLinks(const RunPlan& plan, const RankPlan& rank, const Hardware& hardware)
    : hardware_(hardware),
      grad_factor_(double(hardware.practice.bytes_of_grad(plan.shape.grad)) /
                   double(size_of(plan.shape.grad))) {
  const RankSpan dp = span_on(hardware, plan.mesh, MeshAxis::Dp, rank.coords.pp);
  const int64_t shards = rank.zero.level == 0 ? 1 : rank.zero.degree;
  const int64_t replicas = plan.mesh.dp_at(rank.coords.pp) / shards;
  shards_ = {shards, dp.stride, dp.nodes};
  replicas_ = {replicas, dp.stride * shards, dp.nodes};
  // Of a vector of one byte: what a rank sends to scatter it, and to sum its own part.
  const double scattered = 1.0 - 1.0 / double(shards);
  const double summed = 2.0 * (1.0 - 1.0 / double(replicas)) / double(shards);
  scattered_share_ = scattered + summed > 0.0 ? scattered / (scattered + summed) : 0.0;
}

std::vector<DataCollective> DataLinks::collectives(ActionKind kind, double sent_bytes) const {
  if (kind != ActionKind::ReduceGrad) return {{shards_, VectorMove::AllGather, sent_bytes}};
  const double bytes = grad_bytes(sent_bytes);
  return {{shards_, VectorMove::ReduceScatter, scattered_share_ * bytes},
          {replicas_, VectorMove::AllReduce, (1.0 - scattered_share_) * bytes}};
}

double DataLinks::seconds(const DataCollective& part) const {
  if (part.sent_bytes <= 0.0) return 0.0;
  return hardware_.background_s + vectors_s(hardware_, part.span, part.move, part.sent_bytes);
}

double DataLinks::seconds(ActionKind kind, double sent_bytes) const {
  double sum = 0.0;
  for (const DataCollective& part : collectives(kind, sent_bytes)) sum += seconds(part);
  return sum;
}

}  // namespace trireme
