#include "store/writer_lease.h"

#include <utility>

namespace trireme {

WriterLease::WriterLease(double lease_s, Renew renew, Clock now_s)
    : lease_s_(lease_s),
      renew_(std::move(renew)),
      now_s_(std::move(now_s)),
      due_s_(now_s_() + lease_s_ / 6) {}

Status WriterLease::renew_if_due() {
  if (now_s_() < due_s_) return Done{};
  const double begin_s = now_s_();
  const Status renewed = renew_(kMostRenewalS);
  if (!renewed.ok() && renewed.error().kind == ErrorKind::Usage) return renewed;
  // The metadata may have counted the renewal at any moment of the call, so the next one is due
  // after its begin.
  due_s_ = renewed.ok() ? begin_s + lease_s_ / 6 : now_s_() + lease_s_ / 60;
  return Done{};
}

}  // namespace trireme
