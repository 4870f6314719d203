#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "raft/raft_log.h"
#include "raft/raft_message.h"

namespace trireme {

struct RaftOptions {
  ServerId id = 0;
  LogMembers first_members;  // of a new log, equal on all servers; empty: others add this server
  double election_s = 0.3;   // a follower waits this long for its leader, or up to twice as long
  double heartbeat_s = 0.05;
  int64_t append_bytes = int64_t{1} << 20;  // of entries in one message
  int64_t entries_in_flight = 4096;         // to one follower
  int64_t entries_not_committed = 4096;     // more proposals are refused
  int64_t entries_kept = 1000;  // in memory before a snapshot, for followers that lag behind
  uint64_t seed = 0;            // of the times that a follower waits
};

// The server writes and syncs this as one. A snapshot is written first and begins a new segment.
struct RaftWrite {
  int64_t number = 0;
  std::shared_ptr<const LogSnapshot> snapshot;  // shared with the core; not changed
  LogVote vote;
  std::vector<LogEntry> entries;
};

struct RaftRead {
  int64_t id = 0;
  int64_t index = 0;  // answer once this entry is applied; -1: this server leads no more
};

// The server must do all of this. It restores before it applies.
struct RaftOutput {
  std::vector<RaftMessage> messages;
  std::optional<RaftWrite> write;
  std::shared_ptr<const LogSnapshot> restore;  // shared with the core; not changed
  std::vector<LogEntry> apply;
  std::vector<RaftRead> reads;
};

struct RaftProposal {
  int64_t index = 0;
  int64_t term = 0;  // if the entry `index` is applied with another term, the proposal is lost
};

// One server of Raft (Ongaro 2014) without input and output: it neither sends, writes nor reads a
// clock. Its server calls the inputs, and after them take_output(). One thread at a time.
//
// raft_core.cc has terms, the disk and outputs; raft_election.cc how a leader is elected;
// raft_leader.cc and raft_follower.cc how entries are replicated.
class RaftCore {
 public:
  enum class Role : uint8_t { Follower, PreCandidate, Candidate, Leader, Failed };

  RaftCore(RaftOptions options, LogContents contents, double now_s);

  // Inputs.
  void tick(double now_s);
  void receive(const RaftMessage& message, double now_s);  // decode_message() has checked it
  void written(int64_t number);
  // After an error nobody knows what is on the disk, so this server takes part no more.
  void disk_failed();
  // Returns nullopt if this server does not lead or too many proposals wait.
  std::optional<RaftProposal> propose(std::string command);
  // Refused unless the change is one step and the change before it is committed.
  Result<RaftProposal> propose_members(const LogMembers& members);
  // The answer comes in RaftOutput::reads. Returns false if this server does not lead.
  bool read(int64_t id);
  // Takes the state after the entry `index`, which was applied. Older entries may then be left out.
  void compact(int64_t index, std::string state);
  // Writes everything that was written to new files. `state` is that after the last entry that was
  // applied.
  void rewrite(std::string state);

  RaftOutput take_output(double now_s);
  // Returns the time at which tick() is due.
  double next_tick_s() const;

  Role role() const { return role_; }
  bool is_leader() const { return role_ == Role::Leader; }
  ServerId leader() const { return leader_; }  // 0: not known
  int64_t term() const { return vote_.term; }
  int64_t commit() const { return commit_; }
  int64_t applied() const { return applied_; }
  const RaftLog& log() const { return log_; }

 private:
  using Message = RaftMessage;
  struct Peer {
    int64_t next = 1;             // entry to send next
    int64_t match = 0;            // entries up to here are on its disk
    bool is_probing = true;       // one message at a time, until the logs agree
    bool waits = false;           // while probing, for an answer or the next heartbeat
    double heard_s = 0.0;         // newest answer
    double snapshot_at_s = -1.0;  // a snapshot may be sent again from then on
    int64_t round = 0;            // newest one that it has answered
  };
  struct Held {
    int64_t number = 0;  // of the write that must be on the disk before
    RaftMessage message;
  };
  struct WaitingRead {
    int64_t id = 0;
    int64_t index = 0;
    int64_t round = 0;  // 0: not sent yet
  };

  // raft_core.cc
  void become_follower(int64_t term, ServerId leader);
  void wait_for_election(double now_s);
  double random();
  int64_t write_number() const;  // of the write that has everything up to now
  void set_vote(LogVote vote);
  void append(LogEntry entry);
  void remove_from(int64_t index);
  void send(Message message);
  void send_once_written(Message message);
  Message message_to(ServerId to, Message::Kind kind) const;
  void take_write(RaftOutput& output);
  void take_commits(RaftOutput& output);
  void fail_reads();

  // raft_election.cc
  bool follows_live_leader(double now_s) const;
  bool is_up_to_date(const Message& message) const;
  void ask_for_votes(Message::Kind kind, int64_t term);
  void start_pre_vote();
  void start_election();
  void add_vote(ServerId from);
  void on_pre_vote(const Message& message, double now_s);
  void on_vote(const Message& message, double now_s);
  void on_vote_reply(const Message& message);

  // raft_leader.cc
  void become_leader();
  void check_quorum(double now_s);
  void on_append_reply(const Message& message, double now_s);
  void go_back(Peer& peer, const Message& message);
  void update_peers(double now_s);
  void send_to_peers(double now_s);
  void send_entries(ServerId id, Peer& peer, bool is_heartbeat, double now_s);
  void send_snapshot(ServerId id, Peer& peer, double now_s);
  void update_commit();
  void update_reads();

  // raft_follower.cc
  void on_append(const Message& message, double now_s);
  void on_snapshot(const Message& message, double now_s);
  bool take_entries(const Message& message);
  void hear_leader(const Message& message, double now_s);

  const RaftOptions options_;
  uint64_t random_;
  double now_s_ = 0.0;  // of the newest input that has a time
  RaftLog log_;
  LogVote vote_;  // its term is the term of this server
  Role role_ = Role::Follower;
  ServerId leader_ = 0;
  double heard_leader_s_ = -1e30;
  double election_at_s_ = 0.0;
  int64_t commit_ = 0;
  int64_t applied_ = 0;                          // given to the server
  std::shared_ptr<const LogSnapshot> snapshot_;  // the newest one; shared with messages and writes
  std::shared_ptr<const LogSnapshot> restore_;   // for the next output

  // The disk. One write at a time is under way; what changes meanwhile goes into the next one.
  bool has_new_vote_ = false;
  bool has_new_snapshot_ = false;
  int64_t unwritten_ = 1;      // first entry that no write has
  int64_t issued_ = 0;         // number of the newest write
  int64_t issued_last_ = 0;    // its last entry that is still in the log
  int64_t done_ = 0;           // number of the newest write that is on the disk
  int64_t written_index_ = 0;  // entries up to here are on the disk
  std::deque<Held> held_;      // numbers rise

  // Elections.
  std::set<ServerId> votes_;
  int64_t self_vote_number_ = 0;  // of the write that has this server's vote for itself

  // Only a leader uses these.
  std::map<ServerId, Peer> peers_;  // all members but this server
  int64_t term_start_ = 0;          // first entry of the term
  double heartbeat_at_s_ = 0.0;
  double quorum_at_s_ = 0.0;
  int64_t round_ = 0;
  std::deque<WaitingRead> waiting_reads_;

  std::vector<RaftMessage> messages_;
  std::vector<RaftRead> reads_;
};

}  // namespace trireme
