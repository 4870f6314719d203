#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coord/membership_agent.h"

namespace trireme {

// A host of a simulated job.
struct SimulatedHost {
  std::string name;
  double rate = 1.0;  // of its clock
  double offset_s = 0.0;
  int life = 0;                            // counts restarts; events of an earlier life are dropped
  std::unique_ptr<MembershipAgent> agent;  // null: down
  std::vector<SavedStep> storage;
  std::vector<SavedStep> lost;  // content of its storage when that was lost
  double lost_s = -1.0;
  bool stands_still = false;
  std::vector<std::function<void()>> waiting;  // inputs of an agent that stands still
  bool is_cut_from_coord = false;
  int side = 0;  // of the partition that it is on
  int64_t ticks = 0;

  double local_s(double now_s) const { return offset_s + rate * now_s; }
  // The deadline binds ranks even while their agent stands still.
  int64_t running_epoch(double now_s) const {
    if (!agent || agent->running_epoch() == 0) return 0;
    return local_s(now_s) <= agent->may_run_until_s() ? agent->running_epoch() : 0;
  }
};

// Watches a simulated job from outside. Its functions return the law that is broken, or "".
class MembershipLaws {
 public:
  // `shortest_lease_s` is a lease by the fastest clock.
  MembershipLaws(const std::vector<SimulatedHost>& hosts, double shortest_lease_s)
      : hosts_(hosts), shortest_lease_s_(shortest_lease_s) {}

  // The record was written into the Coord. An epoch that lacks several of the former members, and
  // more than a third of them, was waited for during a lease.
  std::string on_record(double now_s, const std::string& text) {
    Result<MembershipRecord> record = parse_record(text);
    if (!record.ok()) return record.error().message;
    const MembershipRecord former = std::exchange(record_, std::move(record).value());
    claimed_s_.emplace(record_.claimed_epoch, now_s);
    if (record_.formed.epoch == former.formed.epoch) return "";
    const double waited_s = now_s - claimed_s_[record_.formed.epoch];
    const int64_t missing = num_missing(former.formed);
    const bool are_many = missing > 1 && 3 * missing > std::ssize(former.formed.members);
    if (!are_many || waited_s >= shortest_lease_s_) return "";
    return fmt::format("epoch {} begins without {} of {} members {:.3f} s after its claim",
                       record_.formed.epoch, missing, former.formed.members.size(), waited_s);
  }

  // An epoch has one membership, and each host starts it once. It loses no committed step, and half
  // of the parts of the step before its first one are there.
  std::string on_start(const std::string& host, const StartRanks& start) {
    const Membership& membership = start.membership;
    const int64_t epoch = membership.epoch;
    if (!starts_.emplace(epoch, host).second) {
      return fmt::format("{} starts epoch {} twice", host, epoch);
    }
    const auto [known, is_new] = started_.emplace(epoch, membership);
    newest_ = std::max(newest_, epoch);
    if (known->second != membership) return fmt::format("epoch {} has two memberships", epoch);
    if (is_new && membership.first_step <= committed_step_) {
      return fmt::format("epoch {} does step {} again, but {} is committed", epoch,
                         membership.first_step, committed_step_);
    }
    if (is_new && !has_half(start, claimed_s_[epoch])) {
      return fmt::format("epoch {} starts without half of the {} parts of step {}", epoch,
                         start.holders.size(), start.base.step);
    }
    return "";
  }

  void on_commit(const SavedStep& saved) {
    committed_step_ = std::max(committed_step_, saved.step);
    committed_in_[saved.epoch] = saved.step;
    ++num_committed_;
  }

  std::string on_accepted_write(int64_t epoch) const {
    if (epoch >= newest_) return "";
    return fmt::format("a write of epoch {} was accepted after epoch {} had started", epoch,
                       newest_);
  }

  // No two epochs run at the same time, and no host runs one that it is not a member of.
  std::string check_running(double now_s) const {
    int64_t running = 0;
    for (const SimulatedHost& host : hosts_) {
      const int64_t epoch = host.running_epoch(now_s);
      if (epoch == 0) continue;
      if (running != 0 && running != epoch) {
        return fmt::format("epochs {} and {} run at the same time", running, epoch);
      }
      running = epoch;
      if (started_.at(epoch).find(host.name) == nullptr) {
        return fmt::format("{} runs epoch {} without being a member", host.name, epoch);
      }
    }
    return "";
  }

  // True if members hold half of the parts, or have lost theirs only after this time.
  bool has_half(const StartRanks& start, double lost_after_s) const {
    int64_t num_parts = 0;
    for (const std::string& holder : start.holders) {
      if (start.membership.find(holder) == nullptr) continue;
      const SimulatedHost& host = host_of(holder);
      const bool has_lost = host.lost_s > lost_after_s && holds(host.lost, start.base);
      if (has_lost || holds(host.storage, start.base)) ++num_parts;
    }
    return 2 * num_parts >= std::ssize(start.holders);
  }

  // True if half of the parts of the last committed step are there, for those who hold it now and
  // for those who may hold it next.
  bool are_parts_safe() const {
    std::vector<std::string> members;
    if (newest_ > 0) {
      for (const Member& member : started_.at(newest_).members) members.push_back(member.agent);
    }
    return have_half_of(record_.base.epoch, record_.holders) && have_half_of(newest_, members);
  }

  const Membership* newest() const { return newest_ > 0 ? &started_.at(newest_) : nullptr; }
  int64_t num_epochs() const { return int64_t(started_.size()); }
  int64_t num_committed() const { return num_committed_; }

 private:
  const SimulatedHost& host_of(const std::string& name) const {
    return hosts_[size_t(std::stoi(name.substr(1)))];
  }
  static bool holds(const std::vector<SavedStep>& held, const SavedStep& saved) {
    return std::find(held.begin(), held.end(), saved) != held.end();
  }
  // Members of the former epoch that the record neither has nor leaves out.
  int64_t num_missing(const Membership& former) const {
    return std::count_if(former.members.begin(), former.members.end(), [&](const Member& member) {
      return record_.formed.find(member.agent) == nullptr &&
             std::ranges::find(record_.left_out, member.agent) == record_.left_out.end();
    });
  }
  bool have_half_of(int64_t epoch, const std::vector<std::string>& names) const {
    const auto step = committed_in_.find(epoch);
    int64_t num_holding = 0;
    for (const std::string& name : names) {
      const std::vector<SavedStep>& held = host_of(name).storage;
      num_holding += std::any_of(held.begin(), held.end(), [&](const SavedStep& saved) {
        return saved.epoch == epoch && (step == committed_in_.end() || saved.step >= step->second);
      });
    }
    return 2 * num_holding >= std::ssize(names);
  }

  const std::vector<SimulatedHost>& hosts_;
  const double shortest_lease_s_;
  std::set<std::pair<int64_t, std::string>> starts_;  // epoch and host
  std::map<int64_t, Membership> started_;             // by epoch
  std::map<int64_t, double> claimed_s_;               // by epoch
  std::map<int64_t, int64_t> committed_in_;           // newest step by epoch
  MembershipRecord record_;                           // as it stands in the Coord
  int64_t newest_ = 0;                                // epoch that has started
  int64_t committed_step_ = 0;
  int64_t num_committed_ = 0;
};

}  // namespace trireme
