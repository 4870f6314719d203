#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace trireme {

// Tries again and again whether this host can connect with the other agents of a job, on a thread
// of its own. Ranks of all hosts need these connections, but only the leader has one with
// everybody.
class PeerProbe {
 public:
  // An agent counts as unreached after two attempts in vain. An attempt takes `timeout_s` at most.
  PeerProbe(std::string secret, double timeout_s);
  ~PeerProbe();  // waits for the attempts that are being made
  PeerProbe(const PeerProbe&) = delete;
  PeerProbe& operator=(const PeerProbe&) = delete;

  // The addresses of the others by their names.
  void set_peers(std::map<std::string, std::string> addresses);
  std::set<std::string> unreached() const;

 private:
  void work();

  const std::string secret_;
  const double timeout_s_;
  mutable std::mutex mutex_;  // guards the next four members
  std::condition_variable changed_;
  std::map<std::string, std::string> peers_;
  std::map<std::string, int> failed_;  // attempts in vain since the last success, by name
  bool must_end_ = false;
  std::thread thread_;
};

// The hosts to leave out so that all others reach each other: always the one with the most missing
// connections, and of equal ones the last. `unreached` has the hosts that a host does not reach, by
// its name; `hosts` are sorted with the most important one first, which is never left out.
std::set<std::string> hosts_to_leave_out(
    const std::vector<std::string>& hosts,
    const std::map<std::string, std::set<std::string>>& unreached);

}  // namespace trireme
