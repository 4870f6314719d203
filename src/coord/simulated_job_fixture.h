#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coord/membership_agent.h"
#include "coord/simulated_coord_fixture.h"

namespace trireme {

// The rules of the protocol. A test takes one away to show that the simulator notices it.
struct MembershipRules {
  bool fences_writes = true;       // storage refuses writers of older epochs
  bool stops_before_lease = true;  // ranks stop a third of the lease before it ends
  bool needs_half = true;          // no epoch without half of the holders
  bool compares_versions = true;   // the Coord refuses a write over another version
};

// A job of a few agents in virtual time, on one thread: clocks that drift, messages and calls that
// are late, lost or doubled, agents that crash, stand still or lose their storage, partitions, and
// a Coord that is away. Everything follows from the seed. After every event the laws are checked;
// the first one that is broken ends the run.
class SimulatedJob {
 public:
  SimulatedJob(uint64_t seed, MembershipRules rules, bool keeps_trace = false)
      : seed_(seed),
        random_(seed * 2 + 1),
        rules_(rules),
        coord_(rules.compares_versions),
        keeps_trace_(keeps_trace) {
    const int num_hosts = 2 + int(below(5));
    coord_rate_ = uniform(0.95, 1.05);
    faults_end_s_ = uniform(6.0, 24.0);
    for (int host = 0; host < num_hosts; ++host) {
      Host& made = hosts_.emplace_back();
      made.name = fmt::format("h{}", host);
      made.rate = uniform(0.93, 1.07);
      made.offset_s = uniform(0.0, 100.0);
      at(uniform(0.0, 0.5), [this, host] { boot(host); });
    }
    at(uniform(0.5, 3.0), [this] { make_fault(); });
    at(faults_end_s_, [this] { end_faults(); });
  }

  // Runs to the end and returns the law that was broken; "" if all hold.
  std::string run() {
    while (broken_.empty() && !is_done_ && !events_.empty()) {
      // The function may add events.
      Event event = std::move(const_cast<Event&>(events_.top()));
      events_.pop();
      now_s_ = event.at_s;
      event.happen();
      check_running();
      if (now_s_ > faults_end_s_ + kProgressWithinS) {
        fail("no step was committed by all living hosts after the faults have ended");
      }
    }
    return broken_;
  }

  double recovery_s() const { return now_s_ - faults_end_s_; }
  int64_t num_events() const { return next_event_; }
  int64_t num_epochs() const { return int64_t(started_.size()); }
  int64_t num_committed() const { return num_committed_; }
  const std::string& trace() const { return trace_; }

  static constexpr double kLeaseS = 3.0;
  static constexpr double kProgressWithinS = 6 * kLeaseS;

 private:
  struct Host {
    std::string name;
    double rate = 1.0;
    double offset_s = 0.0;
    int life = 0;  // counts restarts; an event of an earlier life is dropped
    std::unique_ptr<MembershipAgent> agent;  // null: down
    std::vector<SavedStep> storage;
    std::vector<SavedStep> lost;  // content of its storage when that was lost
    double lost_s = -1.0;
    bool stands_still = false;
    std::vector<std::function<void()>> waiting;  // inputs of an agent that stands still
    bool is_cut_from_coord = false;
    int side = 0;  // of a partition
    int64_t ticks = 0;
  };
  struct Event {
    double at_s = 0.0;
    int64_t number = 0;
    std::function<void()> happen;
    bool operator<(const Event& other) const {  // the earliest one is on top
      return std::pair(at_s, number) > std::pair(other.at_s, other.number);
    }
  };

  // ---- chance, time, report

  uint64_t next_random() {  // splitmix64
    uint64_t z = (random_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  double uniform(double low, double high) {
    return low + (high - low) * double(next_random() >> 11) * 0x1p-53;
  }
  uint64_t below(uint64_t n) { return next_random() % n; }
  bool happens(double share) { return has_faults_ && uniform(0.0, 1.0) < share; }

  void at(double at_s, std::function<void()> happen) {
    events_.push({at_s, next_event_++, std::move(happen)});
  }
  void after(double wait_s, std::function<void()> happen) {
    at(now_s_ + wait_s, std::move(happen));
  }
  double local_s(const Host& host) const { return host.offset_s + host.rate * now_s_; }
  double coord_s() const { return coord_rate_ * now_s_; }

  template <typename... Args>
  void note(fmt::format_string<Args...> format, Args&&... args) {
    if (keeps_trace_) {
      trace_ +=
          fmt::format("{:8.3f} {}\n", now_s_, fmt::format(format, std::forward<Args>(args)...));
    }
  }
  void fail(const std::string& law) {
    if (broken_.empty()) broken_ = fmt::format("seed {} at {:.3f} s: {}", seed_, now_s_, law);
    note("BROKEN: {}", law);
  }

  // ---- agents

  void boot(int index) {
    Host& host = hosts_[size_t(index)];
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
    host.agent = std::make_unique<MembershipAgent>(options, host.storage);
    note("{} boots with {} snapshots", host.name, host.storage.size());
    give(index, [](MembershipAgent& agent, double local_s) { return agent.on_tick(local_s); });
  }

  void crash(int index) {
    Host& host = hosts_[size_t(index)];
    if (!host.agent) return;
    note("{} crashes", host.name);
    host.agent.reset();
    ++host.life;
  }

  // Gives an input to an agent, now or when it moves again.
  template <typename Input>
  void give(int index, Input input) {
    Host& host = hosts_[size_t(index)];
    if (!host.agent) return;
    if (host.stands_still) {
      host.waiting.push_back([this, index, input] { give(index, input); });
      return;
    }
    const MembershipEffects effects = input(*host.agent, local_s(host));
    host.storage = host.agent->held();
    for (const MembershipEffect& effect : effects) {
      std::visit([&](const auto& what) { follow(index, what); }, effect);
    }
    plan_tick(index);
  }

  void plan_tick(int index) {
    Host& host = hosts_[size_t(index)];
    const int64_t tick = ++host.ticks;
    const double wait_s = std::max(0.0, (host.agent->next_tick_s() - local_s(host)) / host.rate);
    at(now_s_ + wait_s + 1e-6, [this, index, tick, life = host.life] {
      Host& due = hosts_[size_t(index)];
      if (due.life != life || due.ticks != tick) return;
      give(index, [](MembershipAgent& agent, double local_s) { return agent.on_tick(local_s); });
    });
  }

  // The deadline binds ranks even while their agent stands still.
  int64_t running_epoch(const Host& host) const {
    if (!host.agent || host.agent->running_epoch() == 0) return 0;
    return local_s(host) <= host.agent->may_run_until_s() ? host.agent->running_epoch() : 0;
  }

  // ---- effects

  double delay_s() {
    if (happens(0.02)) return uniform(0.0, 2.0 * kLeaseS);
    return uniform(0.001, has_faults_ ? 0.05 : 0.01);
  }
  bool are_connected(int a, int b) const {
    return hosts_[size_t(a)].side == hosts_[size_t(b)].side;
  }

  void follow(int from, const SendMessage& sent) {
    const int to = std::stoi(sent.to.substr(1));
    note("{} -> {}: {} epoch {} step {}", hosts_[size_t(from)].name, sent.to,
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
        if (result.ok() && result.value().is_done) see_write(call.write);
        note("coord: {} by {}: {}", call.write.key, hosts_[size_t(index)].name,
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
    note("{} stops epoch {}", hosts_[size_t(index)].name, stop.epoch);
  }

  void follow(int index, const StartRanks& start) {
    const Membership& membership = start.membership;
    note("{} starts epoch {} at step {}", hosts_[size_t(index)].name, membership.epoch,
         membership.first_step);
    const auto [known, is_new] = started_.emplace(membership.epoch, membership);
    if (!is_new && known->second != membership) {
      fail(fmt::format("epoch {} has two memberships", membership.epoch));
    }
    if (is_new) check_start(start);
    newest_ = std::max(newest_, membership.epoch);
    plan_write(index, membership.epoch);
    if (has_half(start, 1e9)) {
      plan_save(index, membership.epoch, membership.first_step);
    } else {  // a part was lost after its holder had answered
      after(uniform(0.0, 0.2), [this, index, epoch = membership.epoch] {
        if (running_epoch(hosts_[size_t(index)]) == epoch) fail_ranks(index);
      });
    }
  }

  void see_write(const CoordWrite& write) {
    if (write.key != kRecordKey || !write.value) return;
    Result<MembershipRecord> record = parse_record(*write.value);
    if (!record.ok()) {
      fail(record.error().message);
      return;
    }
    record_ = std::move(record).value();
    claimed_s_.emplace(record_.claimed_epoch, now_s_);
  }

  void follow(int, const CommitStep& commit) {
    note("step {} of epoch {} is committed", commit.saved.step, commit.saved.epoch);
    committed_step_ = std::max(committed_step_, commit.saved.step);
    committed_in_[commit.saved.epoch] = commit.saved.step;
    ++num_committed_;
    const Membership& membership = started_.at(commit.saved.epoch);
    if (!has_faults_ && commit.saved.epoch == newest_) {
      is_done_ = membership.members.size() == hosts_.size();
    }
  }

  void follow(int index, const DropBefore& drop) {
    plan_save(index, drop.saved.epoch, drop.saved.step + 1);
  }
  void follow(int, const Tell& tell) { note("\"{}\"", tell.sentence); }

  // ---- ranks

  void plan_save(int index, int64_t epoch, int64_t step) {
    after(uniform(0.05, 0.6), [this, index, epoch, step, life = hosts_[size_t(index)].life] {
      const Host& host = hosts_[size_t(index)];
      if (host.life != life || running_epoch(host) != epoch) return;
      give(index, [step](MembershipAgent& agent, double now) { return agent.on_saved(now, step); });
    });
  }

  // Ranks write to common storage now and then. A write may arrive late, also after its writer has
  // stopped.
  void plan_write(int index, int64_t epoch) {
    after(uniform(0.2, 1.5), [this, index, epoch, life = hosts_[size_t(index)].life] {
      const Host& host = hosts_[size_t(index)];
      if (host.life != life || running_epoch(host) != epoch) return;
      after(delay_s(), [this, epoch] {
        if (rules_.fences_writes && epoch < fence_) return;
        if (epoch < newest_) {
          fail(fmt::format("a write of epoch {} was accepted after epoch {} had started", epoch,
                           newest_));
        }
      });
      plan_write(index, epoch);
    });
  }

  // ---- laws

  // No two epochs run at the same time, and no host runs one that it is not a member of.
  void check_running() {
    int64_t running = 0;
    for (const Host& host : hosts_) {
      const int64_t epoch = running_epoch(host);
      if (epoch == 0) continue;
      if (running != 0 && running != epoch) {
        fail(fmt::format("epochs {} and {} run at the same time", running, epoch));
      }
      running = epoch;
      if (started_.at(epoch).find(host.name) == nullptr) {
        fail(fmt::format("{} runs epoch {} without being a member", host.name, epoch));
      }
    }
  }

  // No committed step is lost, and half of its parts are there.
  void check_start(const StartRanks& start) {
    const Membership& membership = start.membership;
    if (membership.first_step <= committed_step_) {
      fail(fmt::format("epoch {} does step {} again, but {} is committed", membership.epoch,
                       membership.first_step, committed_step_));
    }
    if (!has_half(start, claimed_s_[membership.epoch])) {
      fail(fmt::format("epoch {} starts without half of the {} parts of step {}", membership.epoch,
                       start.holders.size(), start.base.step));
    }
  }

  // True if members hold half of the parts, or have lost theirs only after this time.
  bool has_half(const StartRanks& start, double lost_after_s) const {
    int64_t num_parts = 0;
    for (const std::string& holder : start.holders) {
      if (start.membership.find(holder) == nullptr) continue;
      const Host& host = hosts_[size_t(std::stoi(holder.substr(1)))];
      const bool has_lost = host.lost_s > lost_after_s && holds(host.lost, start.base);
      if (has_lost || holds(host.storage, start.base)) ++num_parts;
    }
    return 2 * num_parts >= std::ssize(start.holders);
  }
  static bool holds(const std::vector<SavedStep>& held, const SavedStep& saved) {
    return std::find(held.begin(), held.end(), saved) != held.end();
  }

  // ---- faults

  void make_fault() {
    if (!has_faults_) return;
    after(uniform(0.2, 4.0), [this] { make_fault(); });
    const int index = int(below(hosts_.size()));
    const double lasts_s = happens(0.5) ? uniform(0.05, 1.5) : uniform(1.0, 4 * kLeaseS);
    switch (below(7)) {
      case 0:
        crash(index);
        after(lasts_s, [this, index] { boot(index); });
        break;
      case 1:
        lose_storage(index);
        after(lasts_s, [this, index] { boot(index); });
        break;
      case 2:
        note("{} stands still", hosts_[size_t(index)].name);
        hosts_[size_t(index)].stands_still = true;
        after(lasts_s, [this, index] { move_again(index); });
        break;
      case 3:
        note("{} is cut from the coord", hosts_[size_t(index)].name);
        hosts_[size_t(index)].is_cut_from_coord = true;
        after(lasts_s, [this, index] { hosts_[size_t(index)].is_cut_from_coord = false; });
        break;
      case 4:
        split(lasts_s);
        break;
      case 5:
        note("the coord is away");
        is_coord_away_ = true;
        after(lasts_s, [this] { return_coord(); });
        break;
      default:
        fail_ranks(index);
    }
  }

  // A host loses its storage only where half of the parts are left, because the job promises to
  // survive no more, and at most one does between two commits.
  void lose_storage(int index) {
    crash(index);
    Host& host = hosts_[size_t(index)];
    if (num_committed_ < may_lose_from_) return;
    const std::vector<SavedStep> kept = std::exchange(host.storage, {});
    std::vector<std::string> members;
    if (newest_ > 0) {
      for (const Member& member : started_.at(newest_).members) members.push_back(member.agent);
    }
    if (!have_half_of(record_.base.epoch, record_.holders) || !have_half_of(newest_, members)) {
      host.storage = kept;
      return;
    }
    note("{} loses its storage", host.name);
    may_lose_from_ = num_committed_ + 1;
    host.lost = kept;
    host.lost_s = now_s_;
  }

  // True if half of these hosts hold the last committed step of the epoch, or a newer one.
  bool have_half_of(int64_t epoch, const std::vector<std::string>& names) const {
    const auto step = committed_in_.find(epoch);
    int64_t num_holding = 0;
    for (const std::string& name : names) {
      const auto& held = hosts_[size_t(std::stoi(name.substr(1)))].storage;
      num_holding += std::any_of(held.begin(), held.end(), [&](const SavedStep& saved) {
        return saved.epoch == epoch && (step == committed_in_.end() || saved.step >= step->second);
      });
    }
    return 2 * num_holding >= std::ssize(names);
  }

  void fail_ranks(int index) {
    note("ranks of {} fail", hosts_[size_t(index)].name);
    give(index, [](MembershipAgent& agent, double now) { return agent.on_ranks_failed(now); });
  }

  void move_again(int index) {
    Host& host = hosts_[size_t(index)];
    if (!host.stands_still) return;
    note("{} moves again", host.name);
    host.stands_still = false;
    const auto waiting = std::exchange(host.waiting, {});
    for (const auto& input : waiting) input();
    if (host.agent && !host.stands_still) plan_tick(index);
  }

  void split(double lasts_s) {
    for (Host& host : hosts_) {
      host.side = int(below(2));
      note("{} is on side {}", host.name, host.side);
    }
    const int cut_side = int(below(3));  // 2: both sides reach the Coord
    for (Host& host : hosts_) host.is_cut_from_coord = host.side == cut_side;
    after(lasts_s, [this] { heal(); });
  }

  void heal() {
    for (Host& host : hosts_) {
      host.side = 0;
      host.is_cut_from_coord = false;
    }
    note("the network is whole");
  }

  void return_coord() {
    if (!is_coord_away_) return;
    is_coord_away_ = false;
    note("the coord is back");
    if (below(2) == 0) coord_.renew_all(coord_s());
  }

  void end_faults() {
    note("faults end");
    has_faults_ = false;
    heal();
    return_coord();
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

  const uint64_t seed_;
  uint64_t random_;
  const MembershipRules rules_;
  SimulatedCoord coord_;
  const bool keeps_trace_;
  std::vector<Host> hosts_;
  std::priority_queue<Event> events_;
  int64_t next_event_ = 0;
  double now_s_ = 0.0;
  double coord_rate_ = 1.0;
  double faults_end_s_ = 0.0;
  bool has_faults_ = true;
  bool is_coord_away_ = false;
  int64_t fence_ = 0;  // of common storage
  int64_t may_lose_from_ = 0;

  std::map<int64_t, Membership> started_;    // by epoch
  std::map<int64_t, double> claimed_s_;      // by epoch
  std::map<int64_t, int64_t> committed_in_;  // newest step by epoch
  MembershipRecord record_;                  // as it stands in the Coord
  int64_t newest_ = 0;                       // epoch that has started
  int64_t committed_step_ = 0;
  int64_t num_committed_ = 0;
  bool is_done_ = false;
  std::string broken_;
  std::string trace_;
};

}  // namespace trireme
