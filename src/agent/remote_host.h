#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "agent/agent_channel.h"
#include "agent/job_page.h"
#include "agent/rank_host.h"

namespace trireme {

// Another host, whose agent has connected to this one.
class RemoteHost : public RankHost {
 public:
  // The page must outlive this object.
  RemoteHost(Socket socket, SharedJobPage& page) : channel_(std::move(socket)), page_(page) {}

  // Takes what has arrived.
  void receive();
  bool is_broken() const { return channel_.is_broken(); }
  // Seconds since something has arrived.
  double silent_s() const;
  // True once the agent has said its name and which processes live there.
  bool is_known() const { return is_known_; }
  // True if the agent asks for the terms of the job, with its name and slots.
  bool asks_for_terms() const { return asks_for_terms_; }
  int asked_slots() const { return asked_slots_; }
  void send_terms(const JobTerms& terms);
  // The membership in which the agent takes orders; 0: none yet.
  int64_t ready_in() const { return ready_in_; }
  // The signal that the user has sent to the agent of the launcher, and how often.
  int num_signals() const { return num_signals_; }
  int last_signal() const { return last_signal_; }
  // The hosts with which its agent cannot connect.
  const std::set<std::string>& unreached() const { return unreached_; }

  std::vector<MembershipMessage> take_membership() { return std::exchange(membership_, {}); }
  void send_membership(const MembershipMessage& message);
  void send_failure(const JobFailure& failure, int number);
  // Says that the job is over, and waits until that is sent, or until the deadline.
  void dismiss(const RanksEnd& end, Deadline deadline);

  const std::string& name() const override { return name_; }
  Status start(int64_t process, const TcpPlace& place, int ranks_on_host) override;
  void send_order(int64_t process, const EpochOrder& order) override;
  void send_signal(int64_t process, int signal) override;
  void send_no_order(int64_t process) override;
  void share_page() override;
  void set_writer(bool is_writer) override;
  void hand_over_to(const std::string& host) override;
  bool has_handed_over() const override { return has_handed_over_; }
  void drain() override;
  bool is_drained() const override { return is_drained_; }
  std::optional<std::vector<WatchedProcess>> take_watched() override {
    return std::exchange(watched_, std::nullopt);
  }
  void blame(int64_t process, const std::string& why) override;
  std::vector<ProcessNews> take_news() override { return std::exchange(news_, {}); }
  std::vector<LivingProcess> living() const override;
  void add_descriptors(std::vector<pollfd>& entries) const override {
    channel_.add_descriptors(entries);
  }

 private:
  Status take(const AgentChannel::Received& message);
  Status take_about_process(const AgentChannel::Received& message);
  void take_page(const PageValues& values);

  AgentChannel channel_;
  SharedJobPage& page_;
  std::string name_;
  bool is_known_ = false;
  bool asks_for_terms_ = false;
  int asked_slots_ = 0;
  int64_t ready_in_ = 0;
  int num_signals_ = 0;
  int last_signal_ = 0;
  std::set<std::string> unreached_;
  bool is_drained_ = false;
  bool is_writer_ = false;
  bool has_handed_over_ = true;
  std::map<int64_t, LivingProcess> living_;  // by process
  std::vector<ProcessNews> news_;
  std::vector<MembershipMessage> membership_;
  std::optional<std::vector<WatchedProcess>> watched_;  // not taken yet
  int64_t heard_ns_ = 0;
  int64_t shift_ns_ = 0;  // added to a time of the agent, it is a time of this process
};

}  // namespace trireme
