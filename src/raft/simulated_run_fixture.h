#pragma once

#include <exception>
#include <string>
#include <vector>

#include "raft/simulated_cluster_fixture.h"

namespace trireme {

// One seeded run: clients call, while servers, disks and the network fail until kFaultsEndS. After
// that everything works again, and every call must get its answer.
class SimulatedRun {
 public:
  static constexpr double kFaultsEndS = 4.0;
  static constexpr double kEndS = 14.0;

  explicit SimulatedRun(uint64_t seed, bool keeps_trace = false)
      : time_(seed, keeps_trace),
        laws_(time_),
        cluster_(time_, laws_, seed % 2 == 0 ? 3 : 5, seed % 4 == 1 ? 5 : 3) {
    cluster_.network.loss = time_.below(3) == 0 ? 0.1 : 0.01;
    cluster_.network.doubling = 0.03;
    cluster_.network.most_delay_s = time_.below(4) == 0 ? 0.1 : 0.02;
    clients_.resize(4);
    for (size_t client = 0; client < clients_.size(); ++client) {
      clients_[client].calls_left = 8;
      time_.at(time_.uniform(0.2, 1.5), [this, client] { begin_call(client); });
    }
    plan_fault();
    time_.at(kFaultsEndS, [this] { end_faults(); });
  }

  // Empty: every law held.
  std::string run() {
    try {
      while (time_.broken().empty() && time_.now_s() < kEndS && !is_finished() && time_.step()) {
      }
    } catch (const std::exception& exception) {
      time_.fail(exception.what());
    }
    if (!time_.broken().empty()) return time_.broken();
    if (!is_finished()) {
      time_.fail("calls have no answer, or servers differ, long after the last fault");
      return time_.broken();
    }
    const std::string broken = history_.broken_law(cluster_.machine(leader()).lists());
    if (!broken.empty()) time_.fail(broken);
    return time_.broken();
  }
  const SimulatedTime& time() const { return time_; }
  const SimulatedLaws& laws() const { return laws_; }
  const SimulatedCluster& cluster() const { return cluster_; }
  double recovered_s() const { return time_.now_s() - kFaultsEndS; }

 private:
  struct Client {
    int calls_left = 0;
    int64_t attempt = 0;  // an answer to an earlier one is ignored
    size_t call = 0;      // in the history
    ServerId server = 1;
  };

  // ---- Clients ----

  void begin_call(size_t id) {
    Client& client = clients_[id];
    if (client.calls_left == 0) return;
    --client.calls_left;
    client.call = history_.calls.size();
    const bool is_read = time_.below(2) == 0;
    history_.calls.push_back({.key = uint8_t(time_.below(2)),
                              .token = is_read ? -1 : int64_t(client.call) + 1,
                              .begin_s = time_.now_s()});
    try_call(id);
  }
  void try_call(size_t id) {
    Client& client = clients_[id];
    const int64_t attempt = ++client.attempt;
    const SimulatedHistory::Call& call = history_.calls[client.call];
    const auto reply = [this, id, attempt](std::optional<ListMachine::Answer> answer) {
      if (time_.uniform(0, 1) < cluster_.network.loss) return;
      time_.after(time_.uniform(0.001, 0.01),
                  [this, id, attempt, answer] { end_attempt(id, attempt, answer); });
    };
    const auto ask = [this, server = client.server, call, reply] {
      if (call.token < 0) {
        cluster_.read(server, call.key, reply);
      } else {
        cluster_.propose(server, ListMachine::command(call.key, call.token), reply);
      }
    };
    time_.after(time_.uniform(0.001, 0.01), ask);
    time_.after(0.5, [this, id, attempt] { end_attempt(id, attempt, std::nullopt); });
  }
  void end_attempt(size_t id, int64_t attempt, std::optional<ListMachine::Answer> answer) {
    Client& client = clients_[id];
    if (client.attempt != attempt) return;
    ++client.attempt;
    if (!answer) {
      client.server = ServerId(1 + time_.below(uint64_t(cluster_.num_servers())));
      time_.after(0.02, [this, id] { try_call(id); });
      return;
    }
    SimulatedHistory::Call& call = history_.calls[client.call];
    call.end_s = time_.now_s();
    call.answer = *answer;
    time_.after(time_.uniform(0.0, 0.2), [this, id] { begin_call(id); });
  }

  // ---- Faults ----

  ServerId any_server() { return ServerId(1 + time_.below(uint64_t(cluster_.num_servers()))); }
  // A leader is where faults hurt.
  ServerId victim() { return time_.below(2) == 0 && leader() != 0 ? leader() : any_server(); }
  ServerId leader() const {
    ServerId found = 0;
    for (ServerId id = 1; id <= cluster_.num_servers(); ++id) {
      if (!cluster_.is_up(id) || !cluster_.core(id).is_leader()) continue;
      if (found == 0 || cluster_.core(id).term() > cluster_.core(found).term()) found = id;
    }
    return found;
  }

  void plan_fault() {
    time_.after(time_.uniform(0.05, 0.5), [this] {
      if (time_.now_s() >= kFaultsEndS) return;
      make_fault();
      plan_fault();
    });
  }
  void make_fault() {
    const ServerId id = victim();
    const double length_s = time_.uniform(0.05, 1.2);
    switch (time_.below(9)) {
      case 0:
        return crash(id, length_s);
      case 1:  // a power loss of all
        for (ServerId one = 1; one <= cluster_.num_servers(); ++one) {
          crash(one, time_.uniform(0.05, 0.3));
        }
        return;
      case 2:
      case 3:
        return cut_off(id, length_s);
      case 4:
        time_.note("the disk of server {} is slow", id);
        cluster_.slow_disk(id, 0.2);
        time_.after(length_s, [this, id] { cluster_.slow_disk(id, 0.005); });
        return;
      case 5:
        cluster_.fail_next_write(id);
        time_.after(0.6, [this, id] { cluster_.start(id); });
        return;
      case 6:
        time_.note("messages are lost");
        cluster_.network.loss = 0.4;
        time_.after(length_s, [this] { cluster_.network.loss = 0.02; });
        return;
      default:
        return change_members();
    }
  }
  void crash(ServerId id, double length_s) {
    cluster_.crash(id);
    time_.after(length_s, [this, id] { cluster_.start(id); });
  }
  // Messages from the server, to it, or both are lost; sometimes a second server is on its side.
  void cut_off(ServerId id, double length_s) {
    const uint64_t kind = time_.below(4);
    const ServerId friend_of_it = kind == 3 ? any_server() : id;
    time_.note("servers {} and {} are cut off ({})", id, friend_of_it, kind);
    for (ServerId other = 1; other <= cluster_.num_servers(); ++other) {
      if (other == id || other == friend_of_it) continue;
      for (const ServerId one : {id, friend_of_it}) {
        if (kind != 1) cluster_.cut(one, other);
        if (kind != 2) cluster_.cut(other, one);
      }
    }
    time_.after(length_s, [this] { cluster_.heal(); });
  }
  void change_members() {
    const ServerId id = leader();
    if (id == 0) return;
    LogMembers members = cluster_.core(id).log().members();
    const ServerId changed = any_server();
    if (!members.has(changed)) {
      members.servers.push_back({changed, ""});
      std::sort(members.servers.begin(), members.servers.end(),
                [](const LogMember& a, const LogMember& b) { return a.id < b.id; });
    } else if (members.servers.size() > 2) {
      std::erase_if(members.servers, [&](const LogMember& member) { return member.id == changed; });
    }
    cluster_.propose_members(id, members);
  }
  void end_faults() {
    time_.note("the faults end");
    cluster_.heal();
    cluster_.network.loss = 0.0;
    for (ServerId id = 1; id <= cluster_.num_servers(); ++id) {
      cluster_.slow_disk(id, 0.005);
      cluster_.fail_next_write(id, false);
      cluster_.start(id);
    }
    // A write may still fail that was already under way.
    time_.after(0.7, [this] {
      for (ServerId id = 1; id <= cluster_.num_servers(); ++id) cluster_.start(id);
    });
  }

  bool is_finished() const {
    if (time_.now_s() < kFaultsEndS + 1.0) return false;
    for (const SimulatedHistory::Call& call : history_.calls) {
      if (call.end_s < 0) return false;
    }
    for (const Client& client : clients_) {
      if (client.calls_left > 0) return false;
    }
    const ServerId leading = leader();
    if (leading == 0) return false;
    const RaftCore& core = cluster_.core(leading);
    for (const LogMember& member : core.log().members().servers) {
      if (!cluster_.is_up(member.id)) return false;
      const bool is_equal =
          cluster_.core(member.id).applied() == core.log().last_index() &&
          cluster_.machine(member.id).snapshot() == cluster_.machine(leading).snapshot();
      if (!is_equal) return false;
    }
    return true;
  }

  SimulatedTime time_;
  SimulatedLaws laws_;
  SimulatedCluster cluster_;
  SimulatedHistory history_;
  std::vector<Client> clients_;
};

}  // namespace trireme
