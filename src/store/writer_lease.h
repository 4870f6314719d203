#pragma once

#include <functional>

#include "base/result.h"

namespace trireme {

// The lease of the tokens with which a writer of a shared store works. A scrub takes a writer that
// has not renewed its tokens for the time of the lease for dead. The writer itself renews them
// between two pieces of its work, so a renewal must not stop the write for long: it gets
// kMostRenewalS. If the metadata do not answer by then, the writer goes on and tries again soon.
// One thread uses it.
class WriterLease {
 public:
  // How long one renewal may block the writer, in seconds. An election takes less.
  static constexpr double kMostRenewalS = 2.0;

  // Renews the tokens within a deadline in seconds. A usage error says that a token has ended;
  // every other error says that nobody knows, and the same call may succeed later.
  using Renew = std::function<Status(double deadline_s)>;
  // Returns seconds of a clock that does not go back.
  using Clock = std::function<double()>;

  // The tokens are new. `lease_s`: the time of the lease.
  WriterLease(double lease_s, Renew renew, Clock now_s);

  // Renews the tokens if a sixth of the lease has passed since the last renewal, or a sixtieth
  // since an attempt that failed. Returns an error only if a token has ended.
  Status renew_if_due();

 private:
  const double lease_s_;
  const Renew renew_;
  const Clock now_s_;
  double due_s_;  // on the clock
};

}  // namespace trireme
