#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "coord/simulated_time_fixture.h"
#include "raft/list_machine_fixture.h"
#include "raft/raft_core.h"

namespace trireme {

// What must hold on all servers together, checked after every event.
class SimulatedLaws {
 public:
  explicit SimulatedLaws(SimulatedTime& time) : time_(time) {}

  // A term has one leader, and the leader has every entry that was committed in an older term.
  void check_leader(ServerId id, const RaftCore& core) {
    if (!core.is_leader()) return;
    const auto [leader, is_new] = leaders_.emplace(core.term(), id);
    if (leader->second != id) {
      return time_.fail(fmt::format("term {} has two leaders", core.term()));
    }
    if (!is_new) return;
    time_.note("server {} leads in term {}", id, core.term());
    const RaftLog& log = core.log();
    for (int64_t index = log.first_index(); index <= int64_t(committed_.size()); ++index) {
      const Committed& committed = committed_[size_t(index - 1)];
      // An older leader whose votes come late may lack what a newer one has committed.
      if (committed.known_in_term > core.term()) break;
      if (log.term_at(index) != committed.entry.term) {
        return time_.fail(fmt::format("the leader of term {} lost entry {}", core.term(), index));
      }
    }
  }
  // Logs with the same entry have the same entries before it.
  void check_written(const RaftCore& core, const std::vector<LogEntry>& entries) {
    for (const LogEntry& entry : entries) {
      const Written written{core.log().term_at(entry.index - 1), entry.kind, entry.bytes};
      const auto [first, is_new] = written_.emplace(std::pair(entry.index, entry.term), written);
      const bool knows_both = written.previous_term >= 0 && first->second.previous_term >= 0;
      const bool is_same = first->second.kind == written.kind &&
                           first->second.bytes == written.bytes &&
                           (!knows_both || first->second.previous_term == written.previous_term);
      if (!is_same) time_.fail(fmt::format("logs differ before entry {}", entry.index));
    }
  }
  // Committed entries stay, and equal entries make equal states.
  void check_applied(const RaftCore& core, const LogEntry& entry, uint64_t digest) {
    const size_t place = size_t(entry.index - 1);
    if (place > committed_.size()) return time_.fail("an entry was applied too early");
    if (place == committed_.size()) {
      time_.note("entry {} of term {} is committed", entry.index, entry.term);
      committed_.push_back({entry, digest, core.term()});
    }
    if (committed_[place].entry != entry) {
      return time_.fail(fmt::format("committed entry {} was replaced", entry.index));
    }
    check_state(entry.index, digest);
  }
  void check_state(int64_t index, uint64_t digest) {
    if (index > int64_t(committed_.size())) return time_.fail("a snapshot has unknown entries");
    if (index > 0 && committed_[size_t(index - 1)].digest != digest) {
      time_.fail(fmt::format("states differ after entry {}", index));
    }
  }
  int64_t num_committed() const { return int64_t(committed_.size()); }
  int64_t num_leaders() const { return int64_t(leaders_.size()); }

 private:
  struct Committed {
    LogEntry entry;
    uint64_t digest = 0;
    int64_t known_in_term = 0;  // of the first server that applied it
  };
  struct Written {
    int64_t previous_term = 0;
    EntryKind kind = EntryKind::Command;
    std::string bytes;
  };
  SimulatedTime& time_;
  std::map<int64_t, ServerId> leaders_;  // by term
  std::map<std::pair<int64_t, int64_t>, Written> written_;
  std::vector<Committed> committed_;
};

// The history of the clients, and whether it is linearizable (Herlihy and Wing 1990): as if every
// call took effect at one moment between its begin and its end. The answers give the place of each
// call in the order of its key, so the order needs no search.
class SimulatedHistory {
 public:
  struct Call {
    uint8_t key = 0;
    int64_t token = -1;  // -1: a read
    double begin_s = 0.0;
    double end_s = -1.0;  // -1: no answer
    ListMachine::Answer answer;
  };
  std::vector<Call> calls;

  // Empty: it is. `lists` is the state at the end.
  std::string broken_law(const std::map<uint8_t, std::vector<int64_t>>& lists) const {
    std::map<uint8_t, std::vector<Placed>> by_key;
    for (const Call& call : calls) {
      const auto found = lists.find(call.key);
      const std::vector<int64_t> list =
          found == lists.end() ? std::vector<int64_t>() : found->second;
      Placed placed{call.answer.length, call.token < 0, call.begin_s, call.end_s};
      if (call.end_s < 0) {
        if (call.token < 0) continue;
        const auto at = std::find(list.begin(), list.end(), call.token);
        if (at == list.end()) continue;
        placed.length = at - list.begin() + 1;
        placed.end_s = 1e30;
      } else if (placed.length > int64_t(list.size()) ||
                 ListMachine::digest_of(list, placed.length) != call.answer.digest) {
        return fmt::format("what an answer of {:.3f} s has shown was lost", call.end_s);
      } else if (call.token >= 0 && list[size_t(placed.length - 1)] != call.token) {
        return fmt::format("a token that was acknowledged at {:.3f} s was lost", call.end_s);
      }
      by_key[call.key].push_back(placed);
    }
    for (auto& [key, placed] : by_key) {
      std::sort(placed.begin(), placed.end());
      // Nothing may have ended before something that comes earlier in the order began.
      double earliest_end_s = 1e30;
      for (auto call = placed.rbegin(); call != placed.rend(); ++call) {
        if (earliest_end_s < call->begin_s) {
          return fmt::format("a call that began at {:.3f} s saw an old state", call->begin_s);
        }
        earliest_end_s = std::min(earliest_end_s, call->end_s);
      }
    }
    return "";
  }

 private:
  struct Placed {
    int64_t length = 0;
    bool is_read = false;
    double begin_s = 0.0;
    double end_s = 0.0;
    // Reads of the same state may come in any order, so in that of their begins.
    bool operator<(const Placed& other) const {
      return std::tuple(length, is_read, begin_s) <
             std::tuple(other.length, other.is_read, other.begin_s);
    }
  };
};

}  // namespace trireme
