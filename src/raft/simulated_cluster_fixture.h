#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "raft/list_machine_fixture.h"
#include "raft/raft_core.h"
#include "raft/simulated_disk_fixture.h"
#include "raft/simulated_laws_fixture.h"

namespace trireme {

// Servers with disks, and the network between them. Who breaks them is up to the caller.
class SimulatedCluster {
 public:
  // Called with the answer of a call; nullopt: this server does not answer it.
  using Reply = std::function<void(std::optional<ListMachine::Answer>)>;

  struct Network {
    double loss = 0.0;
    double doubling = 0.0;
    double most_delay_s = 0.02;
  };

  SimulatedCluster(SimulatedTime& time, SimulatedLaws& laws, int num_servers, int num_members)
      : time_(time),
        laws_(laws),
        append_bytes_(time.below(2) == 0 ? 400 : 1),
        servers_(size_t(num_servers) + 1) {
    for (int id = 1; id <= num_members; ++id) first_members_.servers.push_back({id, ""});
    for (ServerId id = 1; id <= num_servers; ++id) {
      servers_[size_t(id)].clock_rate = time.uniform(0.9, 1.1);
      start(id);
    }
  }

  Network network;
  bool is_cut(ServerId from, ServerId to) const { return cut_.contains({from, to}); }
  void cut(ServerId from, ServerId to) { cut_.insert({from, to}); }
  void heal() { cut_.clear(); }
  void slow_disk(ServerId id, double write_s) { servers_[size_t(id)].write_s = write_s; }
  void fail_next_write(ServerId id, bool fails = true) {
    servers_[size_t(id)].fails_next_write = fails;
  }

  int num_servers() const { return int(servers_.size()) - 1; }
  bool is_up(ServerId id) const { return servers_[size_t(id)].core != nullptr; }
  const RaftCore& core(ServerId id) const { return *servers_[size_t(id)].core; }
  const ListMachine& machine(ServerId id) const { return servers_[size_t(id)].machine; }
  int64_t num_failed_disks() const { return num_failed_disks_; }
  int64_t num_snapshots_sent() const { return num_snapshots_sent_; }
  int64_t num_members_changed() const { return num_members_changed_; }

  void crash(ServerId id) {
    Server& server = servers_[size_t(id)];
    if (server.core == nullptr) return;
    time_.note("server {} crashes", id);
    server.disk.crash(time_);
    server.core.reset();
    ++server.life;
    server.tick_at_s = -1.0;
    server.commands.clear();
    server.reads.clear();
    server.ready_reads.clear();
  }

  void start(ServerId id) {
    Server& server = servers_[size_t(id)];
    if (server.core != nullptr) return;
    Result<LogContents> contents = server.disk.read();
    if (!contents) return time_.fail(contents.error().message);
    server.fails_next_write = false;
    server.machine = ListMachine();
    server.applied = 0;
    const bool is_first = first_members_.has(id);
    server.core = std::make_unique<RaftCore>(
        RaftOptions{.id = id,
                    .first_members = is_first ? first_members_ : LogMembers(),
                    .election_s = 0.3,
                    .heartbeat_s = 0.1,
                    .append_bytes = append_bytes_,
                    .entries_in_flight = 8,
                    .entries_not_committed = 20,
                    .entries_kept = 3,
                    .seed = time_.next_random()},
        std::move(*contents), local_s(server));
    time_.note("server {} starts in term {} with {} entries", id, server.core->term(),
               server.core->log().last_index());
    after_input(id);
  }

  void propose(ServerId id, const std::string& command, Reply reply) {
    Server& server = servers_[size_t(id)];
    if (server.core == nullptr) return;
    const auto proposal = server.core->propose(command);
    if (!proposal) return reply(std::nullopt);
    server.commands[proposal->index] = {proposal->term, std::move(reply)};
    after_input(id);
  }
  void read(ServerId id, uint8_t key, Reply reply) {
    Server& server = servers_[size_t(id)];
    if (server.core == nullptr) return;
    const int64_t number = ++next_read_;
    if (!server.core->read(number)) return reply(std::nullopt);
    server.reads[number] = {key, std::move(reply)};
    after_input(id);
  }
  void propose_members(ServerId id, const LogMembers& members) {
    Server& server = servers_[size_t(id)];
    if (server.core == nullptr || !server.core->is_leader()) return;
    if (!server.core->propose_members(members)) return;
    time_.note("server {} proposes {} members", id, members.servers.size());
    ++num_members_changed_;
    after_input(id);
  }

 private:
  struct Command {
    int64_t term = 0;
    Reply reply;
  };
  struct Read {
    uint8_t key = 0;
    Reply reply;
  };
  struct Server {
    std::unique_ptr<RaftCore> core;  // null while it is down
    int64_t life = 0;                // events of an earlier life are dropped
    ListMachine machine;
    int64_t applied = 0;
    SimulatedDisk disk;
    double clock_rate = 1.0;
    double write_s = 0.005;
    bool fails_next_write = false;
    double tick_at_s = -1.0;                            // of the next event for it
    std::map<int64_t, Command> commands;                // by index
    std::map<int64_t, Read> reads;                      // by number
    std::vector<std::pair<int64_t, Read>> ready_reads;  // by the entry that they wait for
  };

  double local_s(const Server& server) const { return time_.now_s() * server.clock_rate; }

  void after_input(ServerId id) {
    Server& server = servers_[size_t(id)];
    RaftOutput output = server.core->take_output(local_s(server));
    for (RaftMessage& message : output.messages) send(std::move(message));
    if (output.write) write(id, *output.write);
    if (output.restore != nullptr) restore(server, *output.restore);
    for (const LogEntry& entry : output.apply) apply(server, entry);
    for (const RaftRead& read : output.reads) take_read(server, read);
    answer_reads(server);
    const auto& core = *server.core;
    if (server.applied >= last_snapshot(server) + 8) {
      server.core->compact(server.applied, server.machine.snapshot());
      snapshots_[id] = server.applied;
    }
    laws_.check_leader(id, core);
    schedule_tick(id);
  }

  int64_t last_snapshot(const Server& server) {
    return snapshots_[ServerId(&server - &servers_[0])];
  }

  void schedule_tick(ServerId id) {
    Server& server = servers_[size_t(id)];
    const double at_s = std::max(server.core->next_tick_s() / server.clock_rate, time_.now_s());
    // A tick that comes too early does nothing but schedule the right one.
    if (server.tick_at_s > time_.now_s() && server.tick_at_s <= at_s) return;
    server.tick_at_s = at_s;
    time_.at(at_s + 1e-6, [this, id, life = server.life] {
      Server& living = servers_[size_t(id)];
      if (living.core == nullptr || living.life != life) return;
      living.tick_at_s = -1.0;
      living.core->tick(local_s(living));
      after_input(id);
    });
  }

  // ---- The network ----

  void send(RaftMessage message) {
    if (message.kind == RaftMessage::Kind::Snapshot) ++num_snapshots_sent_;
    if (time_.uniform(0, 1) < network.loss) return;
    if (time_.below(16) == 0) {
      Result<RaftMessage> decoded = decode_message(encode_message(message));
      if (!decoded) return time_.fail(decoded.error().message);
      message = std::move(*decoded);
    }
    if (time_.uniform(0, 1) < network.doubling) deliver(message);
    deliver(std::move(message));
  }
  void deliver(RaftMessage message) {
    const double delay_s = time_.uniform(0.001, network.most_delay_s);
    time_.after(delay_s, [this, message = std::move(message)] {
      Server& server = servers_[size_t(message.to)];
      if (server.core == nullptr || is_cut(message.from, message.to)) return;
      server.core->receive(message, local_s(server));
      after_input(message.to);
    });
  }

  // ---- The disk ----

  void write(ServerId id, const RaftWrite& write) {
    Server& server = servers_[size_t(id)];
    laws_.check_written(*server.core, write.entries);
    time_.note("server {} writes {}: vote {} for {}, {} entries up to {}", id, write.number,
               write.vote.term, write.vote.candidate, write.entries.size(),
               write.entries.empty() ? 0 : write.entries.back().index);
    server.disk.begin(write);
    const bool fails = std::exchange(server.fails_next_write, false);
    const double wait_s = time_.uniform(0.2, 1.8) * server.write_s;
    time_.after(wait_s, [this, id, life = server.life, number = write.number, fails] {
      Server& living = servers_[size_t(id)];
      if (living.core == nullptr || living.life != life) return;
      if (fails) return fail_disk(id);
      living.disk.finish();
      time_.note("server {} has written {}", id, number);
      living.core->written(number);
      after_input(id);
    });
  }
  // The server must fall silent. Later its process is started anew.
  void fail_disk(ServerId id) {
    Server& server = servers_[size_t(id)];
    time_.note("the disk of server {} fails", id);
    ++num_failed_disks_;
    server.core->disk_failed();
    const RaftOutput output = server.core->take_output(local_s(server));
    const bool is_silent = output.messages.empty() && !output.write && output.apply.empty();
    if (!is_silent || server.core->is_leader()) time_.fail("a server whose disk failed goes on");
    crash(id);
  }

  // ---- The state machine ----

  void restore(Server& server, const LogSnapshot& snapshot) {
    if (const Status status = server.machine.restore(snapshot.state); !status) {
      return time_.fail(status.error().message);
    }
    server.applied = snapshot.index;
    snapshots_[ServerId(&server - &servers_[0])] = snapshot.index;
    laws_.check_state(snapshot.index, server.machine.digest());
    drop_commands(server);
  }
  void apply(Server& server, const LogEntry& entry) {
    if (entry.index != server.applied + 1) return time_.fail("an entry was left out");
    server.applied = entry.index;
    ListMachine::Answer answer;
    if (entry.kind == EntryKind::Command) answer = server.machine.append(entry.bytes);
    laws_.check_applied(*server.core, entry, server.machine.digest());
    const auto found = server.commands.find(entry.index);
    if (found == server.commands.end()) return;
    const Command command = std::move(found->second);
    server.commands.erase(found);
    command.reply(command.term == entry.term ? std::optional(answer) : std::nullopt);
  }
  // Their fate is not known here: the snapshot may have them.
  void drop_commands(Server& server) {
    std::erase_if(server.commands,
                  [&](const auto& command) { return command.first <= server.applied; });
  }
  void take_read(Server& server, const RaftRead& read) {
    const auto found = server.reads.find(read.id);
    if (found == server.reads.end()) return;
    if (read.index < 0) {
      found->second.reply(std::nullopt);
    } else {
      server.ready_reads.emplace_back(read.index, std::move(found->second));
    }
    server.reads.erase(found);
  }
  void answer_reads(Server& server) {
    std::erase_if(server.ready_reads, [&](const auto& ready) {
      if (ready.first > server.applied) return false;
      ready.second.reply(server.machine.read(ready.second.key));
      return true;
    });
  }

  SimulatedTime& time_;
  SimulatedLaws& laws_;
  const int64_t append_bytes_;  // about four entries in a message, or one
  LogMembers first_members_;
  std::vector<Server> servers_;  // by id; the first one is not used
  std::map<ServerId, int64_t> snapshots_;
  std::set<std::pair<ServerId, ServerId>> cut_;
  int64_t next_read_ = 0;
  int64_t num_failed_disks_ = 0;
  int64_t num_snapshots_sent_ = 0;
  int64_t num_members_changed_ = 0;
};

}  // namespace trireme
