#pragma once

#include <poll.h>

#include <string>
#include <vector>

#include "agent/job_status.h"
#include "agent/rank_host.h"

namespace trireme {

// The hosts on which a leader may start ranks, each with its slots. It does not own them.
class JobHosts {
 public:
  void add(RankHost& host, int slots) { hosts_.push_back({&host, slots}); }
  // Hosts that do not take part: they are shown, and those that wait could take part soon.
  struct Outsider {
    std::string name;
    int slots = 0;
    bool waits = false;  // else it is gone
    bool operator==(const Outsider&) const = default;
  };
  void set_outsiders(std::vector<Outsider> outsiders) { outsiders_ = std::move(outsiders); }

  int size() const { return int(hosts_.size()); }
  RankHost& at(int index) const { return *hosts_[size_t(index)].host; }
  bool is_usable(int index) const { return !at(index).is_drained(); }
  // Slots for ranks of a new epoch, [host]: 0 if the host is drained.
  std::vector<int> slots() const;
  int64_t num_slots() const;
  int64_t num_waiting_slots() const;
  void share_page() const;
  void add_descriptors(std::vector<pollfd>& entries) const;
  std::vector<JobStatus::Host> status(const std::vector<int>& hosts_of_ranks) const;

 private:
  struct Entry {
    RankHost* host;
    int slots = 0;
  };
  std::vector<Entry> hosts_;
  std::vector<Outsider> outsiders_;
};

}  // namespace trireme
