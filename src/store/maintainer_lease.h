#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "store/metadata_records.h"

namespace trireme {

// Tells the metadata again and again, on a thread of its own, that a maintainer is at work and how
// far it is; at the end, that it has ended.
class MaintainerLease {
 public:
  using Renew = std::function<void(const UpkeepProgress&)>;
  using End = std::function<void()>;
  // Both are called one at a time, and must return within a few seconds.
  MaintainerLease(Renew renew, End end);
  ~MaintainerLease();
  MaintainerLease(const MaintainerLease&) = delete;

  // What the next renewal tells. The first progress is told at once.
  void set(const UpkeepProgress& progress);

  static constexpr double kRenewalS = 2.0;  // between two renewals
  // A maintainer that does not renew its token for so long is taken for dead.
  static constexpr double kLeaseS = 60.0;

 private:
  void run();

  const Renew renew_;
  const End end_;
  std::mutex mutex_;  // guards everything below
  std::condition_variable has_news_;
  bool is_over_ = false;
  bool has_first_ = false;  // a first progress is to be told
  UpkeepProgress progress_;
  std::thread thread_;
};

}  // namespace trireme
