#include "predict/rank_groups.h"

#include "compile/link_cost.h"

namespace trireme {

int64_t sent_by_rank(const RankCollective& asked, CollectiveBytes& collective_bytes) {
  const auto size = int(asked.group.inner.count * asked.group.outer.count);
  if (size == 1) return 0;
  return collective_bytes.sent({.collective = asked.collective,
                                .rank = asked.rank,
                                .size = size,
                                .count = asked.count,
                                .counts = asked.counts},
                               asked.group, size_of(asked.dtype), asked.canonical);
}

GroupPlace RankGroups::along(MeshAxis axis, int count, int step) const {
  const MeshCoords& at = rank_.coords;
  const int64_t stride = span_of(mesh_, axis, at.pp).stride;
  const int64_t index = at.along(axis) / step % count;
  const int64_t own = position_of(mesh_, at);
  return {own - index * step * stride, {count, step * stride}, {}};
}

GroupPlace RankGroups::of_experts() const {
  const int fold = rank_.coords.expert_dp * mesh_.ep;
  MeshCoords first = rank_.coords;
  first.cp = fold % mesh_.cp;
  first.dp = fold / mesh_.cp;
  return {position_of(mesh_, first),
          {mesh_.ep_cp(), span_of(mesh_, MeshAxis::Cp, first.pp).stride},
          {mesh_.ep_dp(), span_of(mesh_, MeshAxis::Dp, first.pp).stride}};
}

}  // namespace trireme
