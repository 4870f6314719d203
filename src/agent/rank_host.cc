#include "agent/rank_host.h"

namespace trireme {

void LivingProcess::take(const EpochOrder& order) {
  epoch = order.epoch;
  rank = order.rank;
  size = order.size;
  state = State::Starting;
}

void LivingProcess::take(const RankReport& report) {
  if (report.epoch != epoch) return;
  if (report.kind == RankReport::Kind::Joined) state = State::Joined;
  if (report.kind == RankReport::Kind::Waiting) state = State::Waiting;
}

}  // namespace trireme
