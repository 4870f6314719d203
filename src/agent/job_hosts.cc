#include "agent/job_hosts.h"

#include <algorithm>

namespace trireme {

std::vector<int> JobHosts::slots() const {
  std::vector<int> slots;
  for (int i = 0; i < size(); ++i) slots.push_back(is_usable(i) ? hosts_[size_t(i)].slots : 0);
  return slots;
}

int64_t JobHosts::num_slots() const {
  int64_t sum = 0;
  for (const int slots : slots()) sum += slots;
  return sum;
}

int64_t JobHosts::num_waiting_slots() const {
  int64_t sum = 0;
  for (const Outsider& host : outsiders_) sum += host.waits ? host.slots : 0;
  return sum;
}

void JobHosts::share_page() const {
  for (const Entry& entry : hosts_) entry.host->share_page();
}

void JobHosts::add_descriptors(std::vector<pollfd>& entries) const {
  for (const Entry& entry : hosts_) entry.host->add_descriptors(entries);
}

// A host without slots only takes part in decisions, and is not shown.
std::vector<JobStatus::Host> JobHosts::status(const std::vector<int>& hosts_of_ranks) const {
  std::vector<JobStatus::Host> hosts;
  for (int i = 0; i < size(); ++i) {
    const Entry& entry = hosts_[size_t(i)];
    if (entry.slots == 0) continue;
    const bool has_ranks =
        std::find(hosts_of_ranks.begin(), hosts_of_ranks.end(), i) != hosts_of_ranks.end();
    const char* const state = entry.host->is_drained() ? "drained" : has_ranks ? "in use" : "spare";
    hosts.push_back({entry.host->name(), state, entry.slots});
  }
  for (const Outsider& host : outsiders_) {
    if (host.slots > 0) hosts.push_back({host.name, host.waits ? "spare" : "gone", host.slots});
  }
  return hosts;
}

}  // namespace trireme
