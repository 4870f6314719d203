#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coord/membership_agent.h"
#include "coord/membership_laws_fixture.h"
#include "coord/simulated_coord_fixture.h"
#include "coord/simulated_time_fixture.h"

namespace trireme {

// The rules of the protocol. A test takes one away to show that the simulator notices it.
struct MembershipRules {
  bool fences_writes = true;       // storage refuses writers of older epochs
  bool stops_before_lease = true;  // ranks stop a third of the lease before it ends
  bool needs_half = true;          // no epoch without half of the holders
  bool compares_versions = true;   // the Coord refuses a write over another version
  bool waits_for_many = true;      // a whole lease, if more than a third of the members are missing
};

// A job of a few agents in virtual time, on one thread: clocks that drift, messages and calls that
// are late, lost or doubled, agents that crash, stand still or lose their storage, partitions, and
// a Coord that is away. Everything follows from the seed. After every event the laws are checked;
// the first one that is broken ends the run.
class SimulatedJob {
 public:
  SimulatedJob(uint64_t seed, MembershipRules rules, bool keeps_trace = false)
      : time_(seed, keeps_trace),
        rules_(rules),
        coord_(rules.compares_versions),
        laws_(hosts_, kLeaseS / kFastestRate) {
    coord_rate_ = uniform(0.95, 1.05);
    fault_every_s_ = uniform(0.2, 4.0);
    faults_end_s_ = uniform(6.0, 24.0);
    add_hosts(2 + int(time_.below(5)));
    time_.at(uniform(0.5, 3.0), [this] { make_fault(); });
    time_.at(faults_end_s_, [this] { end_faults(); });
  }

  // Makes a job with a single fault: the ranks of one host fail.
  static std::unique_ptr<SimulatedJob> with_one_failure(uint64_t seed, int num_hosts) {
    return std::unique_ptr<SimulatedJob>(new SimulatedJob(seed, num_hosts));
  }

  // Runs to the end and returns the law that was broken; "" if all hold.
  std::string run() {
    while (time_.broken().empty() && !is_done_ && time_.step()) {
      check(laws_.check_running(time_.now_s()));
      if (time_.now_s() > faults_end_s_ + kProgressWithinS) {
        time_.fail("no step was committed by all living hosts after the faults have ended");
      }
    }
    return time_.broken();
  }

  double recovery_s() const { return time_.now_s() - faults_end_s_; }
  double last_start_s() const { return last_start_s_; }
  const SimulatedTime& time() const { return time_; }
  const MembershipLaws& laws() const { return laws_; }

  static constexpr double kLeaseS = 3.0;
  static constexpr double kFastestRate = 1.07;  // of the clock of a host
  static constexpr double kProgressWithinS = 6 * kLeaseS;
  static constexpr double kLongestQuietDelayS = 0.01;
  static constexpr double kFailureS = 5.0;

 private:
  SimulatedJob(uint64_t seed, int num_hosts)
      : time_(seed, true),
        coord_(true),
        laws_(hosts_, kLeaseS / kFastestRate),
        has_faults_(false),
        done_epoch_(2) {
    add_hosts(num_hosts);
    time_.at(kFailureS, [this] { fail_ranks(int(time_.below(hosts_.size()))); });
  }

  void add_hosts(int num_hosts) {
    for (int index = 0; index < num_hosts; ++index) {
      SimulatedHost& host = hosts_.emplace_back();
      host.name = fmt::format("h{}", index);
      host.rate = uniform(0.93, kFastestRate);
      host.offset_s = uniform(0.0, 100.0);
      time_.at(uniform(0.0, 0.5), [this, index] { boot(index); });
    }
  }

  bool happens(double share) { return has_faults_ && time_.uniform(0.0, 1.0) < share; }
  double uniform(double low, double high) { return time_.uniform(low, high); }
  void after(double wait_s, std::function<void()> happen) {
    time_.after(wait_s, std::move(happen));
  }
  void check(const std::string& broken) {
    if (!broken.empty()) time_.fail(broken);
  }
  double local_s(const SimulatedHost& host) const { return host.local_s(time_.now_s()); }
  double coord_s() const { return coord_rate_ * time_.now_s(); }

  // ---- agents

  void boot(int index) {
    SimulatedHost& host = hosts_[size_t(index)];
    if (host.agent) return;
    ++host.life;
    host.stands_still = false;
    host.waiting.clear();
    MembershipOptions options{.agent = host.name,
                              .card = {.address = host.name + ":1", .slots = 1},
                              .num_expected = int(hosts_.size()),
                              .first_step = 1,
                              .lease_s = kLeaseS};
    if (!rules_.stops_before_lease) options.run_share = 4.0;
    if (!rules_.needs_half) options.holder_share = 0.0;
    if (!rules_.waits_for_many) options.many_share = 1.0;
    host.agent = std::make_unique<MembershipAgent>(options, host.storage);
    time_.note("{} boots with {} snapshots", host.name, host.storage.size());
    give(index, [](MembershipAgent& agent, double local_s) { return agent.on_tick(local_s); });
  }

  void crash(int index) {
    SimulatedHost& host = hosts_[size_t(index)];
    if (!host.agent) return;
    time_.note("{} crashes", host.name);
    host.agent.reset();
    ++host.life;
  }

  // Gives an input to an agent, now or when it moves again.
  template <typename Input>
  void give(int index, Input input) {
    SimulatedHost& host = hosts_[size_t(index)];
    if (!host.agent) return;
    if (host.stands_still) {
      host.waiting.push_back([this, index, input] { give(index, input); });
      return;
    }
    if (host.agent->is_leading()) take_back(host);
    const MembershipEffects effects = input(*host.agent, local_s(host));
    host.storage = host.agent->held();
    for (const MembershipEffect& effect : effects) {
      std::visit([&](const auto& what) { follow(index, what); }, effect);
    }
    plan_tick(index);
  }

  void plan_tick(int index) {
    SimulatedHost& host = hosts_[size_t(index)];
    const int64_t tick = ++host.ticks;
    const double wait_s = std::max(0.0, (host.agent->next_tick_s() - local_s(host)) / host.rate);
    after(wait_s + 1e-6, [this, index, tick, life = host.life] {
      SimulatedHost& due = hosts_[size_t(index)];
      if (due.life != life || due.ticks != tick) return;
      give(index, [](MembershipAgent& agent, double local_s) { return agent.on_tick(local_s); });
    });
  }

  int64_t running_epoch(const SimulatedHost& host) const {
    return host.running_epoch(time_.now_s());
  }

  // ---- effects

  double delay_s() {
    if (happens(0.02)) return uniform(0.0, 2.0 * kLeaseS);
    return uniform(0.001, has_faults_ ? 0.05 : kLongestQuietDelayS);
  }
  bool are_connected(int a, int b) const {
    return hosts_[size_t(a)].side == hosts_[size_t(b)].side;
  }

  void follow(int from, const SendMessage& sent) {
    const int to = std::stoi(sent.to.substr(1));
    time_.note("{} -> {}: {} epoch {} step {}", hosts_[size_t(from)].name, sent.to,
               name_of(sent.message.kind), sent.message.epoch, sent.message.step);
    const int copies = happens(0.03) ? 2 : 1;
    for (int copy = 0; copy < copies; ++copy) {
      if (happens(0.04)) continue;
      after(delay_s(), [this, from, to, message = sent.message] {
        if (!are_connected(from, to)) return;
        give(to, [message, name = hosts_[size_t(from)].name](MembershipAgent& agent, double now) {
          return agent.on_message(now, name, message);
        });
      });
    }
  }

  void follow(int index, const CallCoord& asked) {
    const int life = hosts_[size_t(index)].life;
    const auto answered = std::make_shared<bool>(false);
    const auto answer = [this, index, life, id = asked.id,
                         answered](const Result<CoordReply>& result) {
      if (*answered || hosts_[size_t(index)].life != life) return;
      *answered = true;
      give(index, [id, result](MembershipAgent& agent, double now) {
        return agent.on_coord_result(now, id, result);
      });
    };
    after(kCallDeadlineS, [answer] { answer(Error{ErrorKind::Runtime, "deadline"}); });
    if (happens(0.03)) return;
    after(delay_s(), [this, index, call = asked.call, answer] {
      if (is_coord_away_ || hosts_[size_t(index)].is_cut_from_coord) return;
      const Result<CoordReply> result = coord_.call(coord_s(), call);
      if (call.kind == CoordCall::Kind::CompareAndSwap) {
        if (result.ok() && result.value().is_done && call.write.key == kRecordKey) {
          check(laws_.on_record(time_.now_s(), call.write.value.value_or("")));
        }
        time_.note("coord: {} by {}: {}", call.write.key, hosts_[size_t(index)].name,
                   !result.ok()             ? "error"
                   : result.value().is_done ? call.write.value.value_or("removed")
                                            : "refused");
      }
      if (happens(0.03)) return;
      after(delay_s(), [this, index, answer, result] {
        if (!hosts_[size_t(index)].is_cut_from_coord) answer(result);
      });
    });
  }

  void follow(int index, const RaiseFence& raise) {
    after(delay_s(), [this, index, epoch = raise.epoch, life = hosts_[size_t(index)].life] {
      fence_ = std::max(fence_, epoch);
      if (hosts_[size_t(index)].life != life) return;
      give(index, [epoch](MembershipAgent& agent, double now) {
        return agent.on_fence_raised(now, epoch);
      });
    });
  }

  void follow(int index, const StopRanks& stop) {
    time_.note("{} stops epoch {}", hosts_[size_t(index)].name, stop.epoch);
  }

  void follow(int index, const StartRanks& start) {
    const Membership& membership = start.membership;
    time_.note("{} starts epoch {} at step {}", hosts_[size_t(index)].name, membership.epoch,
               membership.first_step);
    check(laws_.on_start(hosts_[size_t(index)].name, start));
    last_start_s_ = time_.now_s();
    plan_write(index, membership.epoch);
    if (laws_.has_half(start, time_.now_s())) {
      plan_save(index, membership.epoch, membership.first_step);
    } else {  // a part was lost after its holder had answered
      after(uniform(0.0, 0.2), [this, index, epoch = membership.epoch] {
        if (running_epoch(hosts_[size_t(index)]) == epoch) fail_ranks(index);
      });
    }
  }

  void follow(int, const CommitStep& commit) {
    time_.note("step {} of epoch {} is committed", commit.saved.step, commit.saved.epoch);
    laws_.on_commit(commit.saved);
    const Membership* newest = laws_.newest();
    if (has_faults_ || newest == nullptr || newest->epoch != commit.saved.epoch) return;
    is_done_ = newest->members.size() == hosts_.size() && newest->epoch >= done_epoch_;
  }

  void follow(int index, const DropBefore& drop) {
    plan_save(index, drop.saved.epoch, drop.saved.step + 1);
  }
  void follow(int, const Tell& tell) { time_.note("\"{}\"", tell.sentence); }

  // ---- ranks

  void plan_save(int index, int64_t epoch, int64_t step) {
    after(uniform(0.05, 0.6), [this, index, epoch, step, life = hosts_[size_t(index)].life] {
      const SimulatedHost& host = hosts_[size_t(index)];
      if (host.life != life || running_epoch(host) != epoch) return;
      give(index, [step](MembershipAgent& agent, double now) { return agent.on_saved(now, step); });
    });
  }

  // Ranks write to common storage now and then. A write may arrive late, also after its writer has
  // stopped.
  void plan_write(int index, int64_t epoch) {
    after(uniform(0.2, 1.5), [this, index, epoch, life = hosts_[size_t(index)].life] {
      const SimulatedHost& host = hosts_[size_t(index)];
      if (host.life != life || running_epoch(host) != epoch) return;
      after(delay_s(), [this, epoch] {
        if (rules_.fences_writes && epoch < fence_) return;
        check(laws_.on_accepted_write(epoch));
      });
      plan_write(index, epoch);
    });
  }

  // ---- faults

  void make_fault() {
    if (!has_faults_) return;
    after(uniform(0.1, 2.0) * fault_every_s_, [this] { make_fault(); });
    const int index = int(time_.below(hosts_.size()));
    const double lasts_s = happens(0.5) ? uniform(0.05, 1.5) : uniform(1.0, 4 * kLeaseS);
    switch (time_.below(8)) {
      case 0:
        crash(index);
        after(lasts_s, [this, index] { boot(index); });
        break;
      case 1:
        lose_storage(index);
        after(lasts_s, [this, index] { boot(index); });
        break;
      case 2:
        time_.note("{} stands still", hosts_[size_t(index)].name);
        hosts_[size_t(index)].stands_still = true;
        after(lasts_s, [this, index] { move_again(index); });
        break;
      case 3:
        time_.note("{} is cut from the coord", hosts_[size_t(index)].name);
        hosts_[size_t(index)].is_cut_from_coord = true;
        after(lasts_s, [this, index] { hosts_[size_t(index)].is_cut_from_coord = false; });
        break;
      case 4:
        split(lasts_s);
        break;
      case 5:
        time_.note("the coord is away");
        is_coord_away_ = true;
        after(lasts_s, [this] { return_coord(); });
        break;
      case 6:
        leave_out(index, lasts_s);
        break;
      default:
        fail_ranks(index);
    }
  }

  // The leaders begin an epoch without one of the hosts.
  void leave_out(int index, double lasts_s) {
    const std::string& name = hosts_[size_t(index)].name;
    for (int leader = 0; leader < int(hosts_.size()); ++leader) {
      SimulatedHost& host = hosts_[size_t(leader)];
      if (leader == index || !host.agent || !host.agent->is_leading()) continue;
      time_.note("{} leaves out {}", host.name, name);
      apart_.insert(name);
      std::set<std::string> left_out = host.agent->left_out();
      left_out.insert(name);
      host.agent->leave_out(std::move(left_out));
      fail_ranks(leader);
      after(lasts_s, [this, name] { apart_.erase(name); });
    }
  }

  // The leader, or a later one, takes hosts back that reach the others again.
  void take_back(SimulatedHost& host) {
    std::set<std::string> left_out = host.agent->left_out();
    std::erase_if(left_out, [&](const std::string& name) { return !apart_.contains(name); });
    if (left_out != host.agent->left_out()) host.agent->leave_out(std::move(left_out));
  }

  // A host loses its storage only if half of the parts are left, because the job does not promise
  // to survive more. At most one host loses its storage between two commits.
  void lose_storage(int index) {
    crash(index);
    SimulatedHost& host = hosts_[size_t(index)];
    if (laws_.num_committed() < may_lose_from_) return;
    const std::vector<SavedStep> kept = std::exchange(host.storage, {});
    if (!laws_.are_parts_safe()) {
      host.storage = kept;
      return;
    }
    time_.note("{} loses its storage", host.name);
    may_lose_from_ = laws_.num_committed() + 1;
    host.lost = kept;
    host.lost_s = time_.now_s();
  }

  void fail_ranks(int index) {
    time_.note("ranks of {} fail", hosts_[size_t(index)].name);
    give(index, [](MembershipAgent& agent, double now) { return agent.on_ranks_failed(now); });
  }

  void move_again(int index) {
    SimulatedHost& host = hosts_[size_t(index)];
    if (!host.stands_still) return;
    time_.note("{} moves again", host.name);
    host.stands_still = false;
    const auto waiting = std::exchange(host.waiting, {});
    for (const auto& input : waiting) input();
    if (host.agent && !host.stands_still) plan_tick(index);
  }

  void split(double lasts_s) {
    for (SimulatedHost& host : hosts_) {
      host.side = int(time_.below(2));
      time_.note("{} is on side {}", host.name, host.side);
    }
    const int cut_side = int(time_.below(3));  // 2: both sides reach the Coord
    for (SimulatedHost& host : hosts_) host.is_cut_from_coord = host.side == cut_side;
    after(lasts_s, [this] { heal(); });
  }

  void heal() {
    for (SimulatedHost& host : hosts_) {
      host.side = 0;
      host.is_cut_from_coord = false;
    }
    time_.note("the network is whole");
  }

  void return_coord() {
    if (!is_coord_away_) return;
    is_coord_away_ = false;
    time_.note("the coord is back");
    if (time_.below(2) == 0) coord_.renew_all(coord_s());
  }

  void end_faults() {
    time_.note("faults end");
    has_faults_ = false;
    heal();
    return_coord();
    apart_.clear();
    for (int host = 0; host < int(hosts_.size()); ++host) {
      move_again(host);
      boot(host);
    }
  }

  static const char* name_of(MembershipMessage::Kind kind) {
    constexpr const char* kNames[] = {"Prepare", "Prepared", "Formed",   "Alive",
                                      "Failed",  "Saved",    "Committed"};
    return kNames[int(kind)];
  }

  static constexpr double kCallDeadlineS = kLeaseS / 4;

  SimulatedTime time_;
  const MembershipRules rules_ = {};
  SimulatedCoord coord_;
  std::vector<SimulatedHost> hosts_;
  MembershipLaws laws_;
  double coord_rate_ = 1.0;
  double fault_every_s_ = 0.0;  // on average
  double faults_end_s_ = 0.0;
  bool has_faults_ = true;
  bool is_coord_away_ = false;
  std::set<std::string> apart_;  // hosts that do not reach the others; leaders leave them out
  int64_t fence_ = 0;            // of common storage
  int64_t may_lose_from_ = 0;
  int64_t done_epoch_ = 1;
  double last_start_s_ = 0.0;
  bool is_done_ = false;
};

}  // namespace trireme
