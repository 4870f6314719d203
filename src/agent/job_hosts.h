#pragma once

#include <poll.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/job_page.h"
#include "agent/job_status.h"
#include "agent/rank_host.h"
#include "agent/remote_host.h"
#include "agent/remote_shells.h"
#include "comm/tcp/handshake.h"

namespace trireme {

// The hosts of a job, each with its slots for ranks. Hosts keep their index while the job lives,
// also after they are lost.
class JobHosts {
 public:
  // The page must outlive this object.
  explicit JobHosts(SharedJobPage& page) : page_(page) {}

  // Adds a host. If a lost host had the same name, it takes its place.
  void add(std::unique_ptr<RankHost> host, int slots);
  // From now on, agents of other hosts can join by receive().
  void open(Reception reception, AgentWelcome welcome, int slots_of_unknown);
  // Expects an agent which says that it is `name`.
  void expect(const std::string& name, int slots);
  // Starts the agents of expected hosts, here by a remote shell each.
  Status start_shells(RemoteShells::Options options);
  // Adds the agents that have joined meanwhile.
  void receive(const TcpLog& log);
  // Sorts hosts as they were expected, and the others by name. Call it before ranks are placed.
  void sort();

  int size() const { return int(hosts_.size()); }
  RankHost& at(int index) const { return *hosts_[size_t(index)].host; }
  bool is_usable(int index) const;
  // Slots for ranks of a new epoch, [host]: 0 if the host is lost or drained.
  std::vector<int> slots() const;
  int64_t num_slots() const;
  // Takes a host out of the next epoch. Returns false if there is no such host.
  bool drain(const std::string& name);
  // Names of expected hosts whose agents have not joined.
  std::vector<std::string> missing() const;
  void share_page() const;
  void add_descriptors(std::vector<pollfd>& entries) const;
  std::vector<JobStatus::Host> status(const std::vector<int>& hosts_of_ranks) const;

 private:
  struct Member {
    std::unique_ptr<RankHost> host;
    int slots = 0;
    bool is_drained = false;
  };
  struct Expected {
    std::string name;
    int slots = 0;
  };
  int index_of(const std::string& name) const;
  void greet(const TcpLog& log);
  bool is_free(const std::string& name) const;
  void admit(std::unique_ptr<RemoteHost> host);

  SharedJobPage& page_;
  std::optional<RemoteShells> shells_;  // outlive the hosts, so that agents can end by themselves
  std::vector<Member> hosts_;
  std::vector<Expected> expected_;
  std::optional<Reception> reception_;
  AgentWelcome welcome_;
  int slots_of_unknown_ = 0;
  std::vector<std::unique_ptr<RemoteHost>> unknown_;  // have not said their names yet
};

}  // namespace trireme
