// A member of a job tells those who ask how the job is.
#include "agent/job_member.h"

namespace trireme {

void JobMember::answer_askers() {
  if (askers_.receive()) askers_.answer(status_answer());
}

StatusAnswer JobMember::status_answer() const {
  using Kind = StatusAnswer::Kind;
  if (leader_ && !leader_->reported().empty()) return {Kind::Record, leader_->reported()};
  const Member* const leader = running_.find(running_.leader);
  if (leader != nullptr && !leads()) return {Kind::Elsewhere, leader->address};
  return {page_->begun_ns == 0 ? Kind::NotBegun : Kind::NoLeader};
}

}  // namespace trireme
