#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "raft/command_log.h"
#include "raft/log_file.h"
#include "raft/raft_core.h"
#include "raft/raft_network.h"
#include "raft/state_machine.h"

namespace trireme {

struct RaftServerOptions {
  std::string folder;
  std::string secret;  // of all servers of the log
  // The address at which the others reach this server. If it is empty, it is that of the listener,
  // which must then not be 0.0.0.0 or [::].
  std::string address;
  RaftOptions raft;
  int64_t entries_per_snapshot = 100'000;
  TcpLog log;  // gets sentences for an operator; may be empty
};

// One server of a log on which several servers agree: RaftCore with a disk, a network and threads.
// If its disk, its machine or one of its threads fails, the server stops: its callers get the
// error, and the log for the operator says why.
class RaftServer : public CommandLog {
 public:
  // Restores the state of `machine` from the folder. The machine must outlive the server, and only
  // the server may call it. `listener` is the socket at the address that `raft.first_members` or a
  // later change gives this server.
  static Result<std::unique_ptr<RaftServer>> open(RaftServerOptions options, Socket listener,
                                                  StateMachine& machine);
  // Calls that wait get an error.
  ~RaftServer() override;

  Result<AppliedAnswer> apply(const std::string& command, Deadline deadline) override;
  Result<AppliedAnswer> query(const std::string& question, Deadline deadline) override;
  // Adds, removes or moves one server. Returns once the change is committed.
  Result<AppliedAnswer> change_members(const LogMembers& members, Deadline deadline);

  // Reads the files of this server again, and returns what is damaged. The state is in memory, so
  // the server works on.
  Status check_files() const { return LogFile::check(options_.folder); }
  // Writes new files with a snapshot, and removes the old ones. Returns once they are whole.
  Status rewrite_files(Deadline deadline);

  struct Standing {
    bool is_leader = false;
    int64_t term = 0;
    ServerId leader = 0;  // 0: not known
    int64_t commit = 0;
    LogMembers members;
  };
  Standing standing();

 private:
  enum class CallKind : uint8_t { Command, Question, Members };
  struct Call {
    CallKind kind = CallKind::Command;
    std::string bytes;
    int64_t index = 0;  // of its entry, or of the entry that a question waits for
    int64_t term = 0;
    std::optional<Result<AppliedAnswer>> answer;  // guarded by mutex_
  };
  using SharedCall = std::shared_ptr<Call>;  // shared with the thread that waits

  RaftServer(RaftServerOptions options, LogFile file, LogContents contents, StateMachine& machine);
  Result<AppliedAnswer> do_call(CallKind kind, const std::string& bytes, Deadline deadline);

  // Of the thread that runs the core.
  void run();
  void take_inputs(std::unique_lock<std::mutex>& lock);
  void begin_calls();
  bool begin(const SharedCall& call);  // false: later
  void do_output();
  Status apply_entries(const RaftOutput& output);
  void answer_questions(const std::vector<RaftRead>& reads);
  void answer(const SharedCall& call, Result<AppliedAnswer> answer);
  void answer_not_leader(const SharedCall& call);
  void fail(const Error& error);
  void publish_standing();
  void send(std::vector<RaftMessage>& messages);
  std::string address_of(ServerId id) const;  // "": not known

  // Of the thread that writes.
  void write_to_disk();

  const RaftServerOptions options_;
  LogFile file_;                               // of the thread that writes
  StateMachine& machine_;                      // of the thread that runs the core
  RaftCore core_;                              // of the thread that runs it
  std::map<ServerId, std::string> addresses_;  // that servers named in their last message
  int64_t applied_ = 0;
  int64_t snapshot_index_ = 0;
  int64_t next_read_ = 0;
  std::deque<SharedCall> waiting_;                // not begun yet
  std::map<int64_t, SharedCall> commands_;        // by index
  std::map<int64_t, SharedCall> questions_;       // by number; leadership not confirmed yet
  std::multimap<int64_t, SharedCall> confirmed_;  // by the entry that they wait for

  std::mutex mutex_;
  std::condition_variable has_input_, has_write_, has_answer_;
  bool is_stopping_ = false;  // these are guarded by mutex_
  bool wants_new_files_ = false;
  int num_calls_ = 0;
  std::vector<SharedCall> new_calls_;
  std::vector<RaftMessage> new_messages_;
  std::optional<RaftWrite> write_;  // for the thread that writes
  std::optional<int64_t> written_;
  std::optional<Error> disk_error_;
  std::optional<Error> broken_;
  Standing standing_;

  std::unique_ptr<RaftNetwork> network_;
  std::thread core_thread_, disk_thread_;
};

}  // namespace trireme
