#pragma once

#include <set>
#include <string>
#include <vector>

#include "agent/agent_channel.h"
#include "agent/rank_host.h"

namespace trireme {

// An agent kills its ranks if the leader has not answered for kAgentLeaseS. A leader gives a host
// up kHostLeaseS after its last sign of life: later, so that no rank of the lost host is alive in
// the next epoch.
inline constexpr double kAgentLeaseS = 3.0;
inline constexpr double kHostLeaseS = 4.0;
inline constexpr double kBeatS = 0.25;

// Another host, reached through its agent (host_agent.h).
class RemoteHost : public RankHost {
 public:
  // Greets the agent. The page must outlive this object.
  RemoteHost(Socket socket, const AgentWelcome& welcome, SharedJobPage& page);
  ~RemoteHost() override;

  // False until the agent has said its name. Until then nothing may be started.
  bool is_known() const { return is_known_; }
  int slots() const { return slots_; }  // that the agent has named; 0: none
  const std::string& why_left() const { return why_left_; }

  const std::string& name() const override { return name_; }
  Status start(int64_t process, const TcpPlace& place, int ranks_on_host) override;
  void send_order(int64_t process, const EpochOrder& order) override;
  void send_signal(int64_t process, int signal) override;
  void send_no_order(int64_t process) override;
  void share_page() override;
  void set_writer(bool is_writer) override;
  std::vector<ProcessNews> take_news() override;
  void add_descriptors(std::vector<pollfd>& entries) const override {
    channel_.add_descriptors(entries);
  }
  bool is_lost() const override { return is_lost_; }
  bool wants_out() const override { return wants_out_; }

 private:
  Status take(const AgentChannel::Received& message, std::vector<ProcessNews>& news);
  void lose(std::vector<ProcessNews>& news);

  AgentChannel channel_;
  SharedJobPage& page_;
  std::string name_;
  int slots_ = 0;
  bool is_known_ = false;
  bool wants_out_ = false;
  bool is_writer_ = false;
  bool has_left_ = false;
  bool is_lost_ = false;
  std::string why_left_;
  std::set<int64_t> processes_;  // that have not ended
  int64_t heard_ns_;
  int64_t shift_ns_ = 0;  // added to a time of the agent, it is a time of this process
};

}  // namespace trireme
