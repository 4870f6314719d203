#include "chaos/storm.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "agent/job_status.h"
#include "agent/process_stat.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json_number.h"
#include "base/json_text.h"
#include "chaos/flip_bit.h"
#include "chaos/live_ranks.h"
#include "chaos/mapped_rank.h"
#include "checkpoint/checkpoint_index.h"

namespace trireme {

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::milliseconds kLookEvery(5);
constexpr double kSilenceS = 120.0;  // without a new step, beside the deadline of a wait
constexpr double kHostS = 60.0;      // until a host that was cut off is used again
// Steps that must follow a fault before the next one. The job can still write two that it had done
// before the fault, and two are new.
constexpr int64_t kProgress = 4;
constexpr double kLeastFullS = 0.3;  // of the disk
constexpr int kLeastOnDisk = 2;      // checkpoints, of which one is damaged

class Storm {
 public:
  Storm(const StormJob& job, const FaultPlan& plan, const StormMachine& machine,
        const TakenSignals& signals, ChildJob& child)
      : job_(job), plan_(plan), machine_(machine), signals_(signals), child_(child) {}

  StormEnd run() {
    // A signal has ended wait_until() early, and then the job ends, too.
    const bool has_begun = wait_until([&] { return furthest_ > 1; }, silence_s());
    begin_s_ = unix_time_s();
    for (int number = 0; has_begun && may_go_on(); ++number) {
      const PlannedFault fault = planned_fault(plan_, number);
      const double due_s = unix_time_s() + fault.after_s;
      wait_until([&] { return unix_time_s() >= due_s || !may_go_on(); }, 1e9);
      wait_until([&] { return furthest_ >= needed_step_ || !may_go_on(); }, silence_s());
      wait_until([&] { return !may_go_on() || inject(fault); }, silence_s());
    }
    wait_until([] { return false; }, 1e9);
    end_.exit_code = child_.exit_code();
    return std::move(end_);
  }

 private:
  double silence_s() const { return kSilenceS + 3.0 * job_.comm_timeout_s; }
  // Faults are still wanted.
  bool may_go_on() {
    return !child_.has_ended() && !end_.is_interrupted &&
           int64_t(end_.faults.size()) < job_.most_faults &&
           furthest_ < job_.last_step - std::max(kProgress, job_.last_step / 20);
  }

  // Waits until the condition holds. Returns false if the job has ended before, if time has passed,
  // or after a signal. A job without a new step for too long is killed.
  template <typename Condition>
  bool wait_until(const Condition& condition, double seconds) {
    const int64_t end_ns = monotonic_ns() + int64_t(seconds * 1e9);
    while (!child_.has_ended()) {
      look();
      if (condition()) return true;
      if (monotonic_ns() > end_ns) return false;
      std::this_thread::sleep_for(kLookEvery);
    }
    return false;
  }

  void look() {
    for (int signal = signals_.next(); signal != 0; signal = signals_.next()) {
      if (signal == SIGCHLD) continue;
      child_.send(end_.is_interrupted ? SIGKILL : SIGTERM);
      end_.is_interrupted = true;
    }
    const int64_t step = last_step_in(job_.run_dir + "/metrics.jsonl"), now = monotonic_ns();
    if (step > furthest_ || progress_ns_ == 0) progress_ns_ = now;
    furthest_ = std::max(furthest_, step);
    if (double(now - progress_ns_) * 1e-9 > silence_s()) child_.send(SIGKILL);
  }

  // Returns false if there is nothing to hit at this moment.
  bool inject(const PlannedFault& fault) {
    InjectedFault injected{.kind = fault.kind,
                           .time_s = unix_time_s(),
                           .at_s = unix_time_s() - begin_s_,
                           .step = furthest_};
    const bool is_done = fault.kind == FaultKind::Partition ? cut_a_host(fault, injected)
                         : fault.kind == FaultKind::Disk    ? fill_disk(injected)
                         : fault.kind == FaultKind::Flip    ? flip(fault, injected)
                         : fault.kind == FaultKind::Point   ? reach_a_point(fault, injected)
                         : fault.kind == FaultKind::Agent   ? kill_the_agent(injected)
                                                            : hit_a_rank(fault, injected);
    if (!is_done) return false;
    // Two kills may follow each other, but not three.
    is_pair_ = !is_pair_ && fault.kind == FaultKind::Kill;
    look();  // because steps were done since the last look
    if (!is_pair_) needed_step_ = furthest_ + kProgress;
    end_.faults.push_back(std::move(injected));
    return true;
  }

  bool hit_a_rank(const PlannedFault& fault, InjectedFault& injected) {
    const std::vector<LiveRank> ranks = live_ranks(job_.run_dir);
    if (ranks.empty()) return false;
    const LiveRank& rank = ranks[chosen(fault.target, ranks.size())];
    injected.target = fmt::format("rank {} (process {})", rank.rank, rank.pid);
    return ::kill(rank.pid, fault.kind == FaultKind::Stop ? SIGSTOP : SIGKILL) == 0;
  }

  // The status may be that of an agent that has died before.
  bool kill_the_agent(InjectedFault& injected) const {
    const nlohmann::json status = status_of_job();
    if (!status.contains("agent") || live_ranks(job_.run_dir).empty()) return false;
    const nlohmann::json& agent = status["agent"];
    const int pid = whole_number_or(agent, "pid", 0);
    const auto stat = stat_of_process(pid);
    if (pid <= 1 || !stat) return false;
    if (stat->start != whole_number_or(agent, "start", uint64_t{0})) return false;
    injected.target = fmt::format("agent (process {})", pid);
    return ::kill(pid, SIGKILL) == 0;
  }

  // A rank that recovers gets there because another one is killed.
  bool reach_a_point(const PlannedFault& fault, InjectedFault& injected) {
    std::vector<MappedRank> ranks = mapped(live_ranks(job_.run_dir));
    if (ranks.size() < 2) return false;
    size_t chosen_one = chosen(fault.target, ranks.size());
    if (is_of_first_rank(fault.point)) {
      const auto first = std::find_if(ranks.begin(), ranks.end(),
                                      [](const MappedRank& rank) { return rank.number() == 0; });
      if (first == ranks.end()) return false;
      chosen_one = size_t(first - ranks.begin());
    }
    ProgressPage& page = ranks[chosen_one].pages->progress;
    const LiveRank& rank = ranks[chosen_one].rank;
    injected.target =
        fmt::format("rank {} (process {}) at {}", rank.rank, rank.pid, name_of(fault.point));
    page.crash_at(fault.point);
    if (is_of_recovery(fault.point)) {
      const LiveRank& other = ranks[(chosen_one + 1) % ranks.size()].rank;
      injected.target += fmt::format(", after rank {} was killed", other.rank);
      ::kill(other.pid, SIGKILL);
    }
    wait_until([&] { return page.is_past_crash(); }, silence_s());
    injected.was_reached = page.is_past_crash();
    page.crash_at(CrashPoint::None);
    injected.time_s = unix_time_s();
    return true;
  }

  // A rank is killed, so that the job must read what is damaged. All ranks stand still meanwhile,
  // so that no newer checkpoint appears.
  bool flip(const PlannedFault& fault, InjectedFault& injected) {
    const std::vector<LiveRank> ranks = live_ranks(job_.run_dir);
    if (ranks.empty()) return false;
    const LiveRank& rank = ranks[chosen(fault.target, ranks.size())];
    for (const LiveRank& one : ranks) ::kill(one.pid, SIGSTOP);
    const bool is_memory = !rank.memory_folder.empty() && fault.file >= 1u << 31;
    injected.damaged = is_memory ? newest_checkpoint(rank.memory_folder, 1) : "";
    if (injected.damaged.empty()) {
      injected.damaged = newest_checkpoint(job_.run_dir + "/checkpoints", kLeastOnDisk);
    }
    if (!injected.damaged.empty()) {
      const Result<std::string> bit = flip_bit(injected.damaged, fault);
      injected.target =
          fmt::format("rank {} (process {}), and {}: {}", rank.rank, rank.pid,
                      short_name(injected.damaged), bit.ok() ? *bit : bit.error().message);
    }
    for (const LiveRank& one : ranks) ::kill(one.pid, SIGCONT);
    return !injected.damaged.empty() && ::kill(rank.pid, SIGKILL) == 0;
  }

  // Within the folder of the run, if it lies there.
  std::string short_name(const std::string& path) const {
    return path.starts_with(job_.run_dir + "/") ? path.substr(job_.run_dir.size() + 1) : path;
  }

  // The disk is full while one and a half checkpoints are due.
  bool fill_disk(InjectedFault& injected) {
    const double seconds = std::max(kLeastFullS, 1.5 * double(job_.save_every) * job_.step_s);
    injected.target = fmt::format("checkpoints, for {:.2f} s", seconds);
    machine_.disk->fill();
    const double end_s = unix_time_s() + seconds;
    wait_until([&] { return unix_time_s() >= end_s || !may_go_on(); }, 1e9);
    machine_.disk->empty();
    return true;
  }

  bool cut_a_host(const PlannedFault& fault, InjectedFault& injected) {
    const std::vector<std::string> used = hosts_in_state(true);
    if (used.empty()) return false;
    const std::string& host = used[chosen(fault.target, used.size())];
    injected.target = "host " + host;
    if (!machine_.hosts->cut(host)) return false;
    look();
    const int64_t before = furthest_;  // steps that were done before the cut
    wait_until([&] { return furthest_ >= before + kProgress; }, silence_s());
    machine_.hosts->join(host);
    const auto is_back = [&] {
      const std::vector<std::string> gone = hosts_in_state(false);
      return std::find(gone.begin(), gone.end(), host) == gone.end();
    };
    wait_until(is_back, kHostS);
    return true;
  }

  // An empty object if there is none yet.
  nlohmann::json status_of_job() const {
    const Result<std::string> text =
        read_text_file(job_.run_dir + "/" + kStatusFile, kMostStatusBytes);
    nlohmann::json json = nlohmann::json::object();
    if (text.ok()) json = parse_json_or_discard(*text);
    return json.is_object() ? json : nlohmann::json::object();
  }

  // Hosts that are in use, or those that are gone, as the agent that leads reports them.
  std::vector<std::string> hosts_in_state(bool in_use) const {
    std::vector<std::string> names;
    const nlohmann::json json = status_of_job();
    if (!json.contains("hosts")) return names;
    for (const nlohmann::json& host : json["hosts"]) {
      const std::string state = host.value("state", "");
      if (state == (in_use ? "in use" : "gone")) names.push_back(host.value("host", ""));
    }
    return names;
  }

  const StormJob& job_;
  const FaultPlan& plan_;
  const StormMachine& machine_;
  const TakenSignals& signals_;
  ChildJob& child_;
  StormEnd end_;
  double begin_s_ = 0.0;
  int64_t furthest_ = 0;     // step
  int64_t progress_ns_ = 0;  // when it was done
  int64_t needed_step_ = 0;  // before the next fault
  bool is_pair_ = false;     // the last fault was a kill after which another one may come at once
};

void tell_restart(const RunLog& log, InjectedFault& fault) {
  const auto restart = std::find_if(log.restarts.begin(), log.restarts.end(),
                                    [&](const auto& r) { return r.time_s > fault.time_s; });
  if (restart == log.restarts.end()) {
    fault.happened = "no new epoch was needed";
    return;
  }
  fault.recovery_ms = 1e3 * (restart->time_s - fault.time_s);
  const bool starts_anew = restart->from == "start";
  fault.happened = starts_anew ? std::string("started anew")
                               : fmt::format("resumed from step {} ({}), {} step{} again",
                                             restart->step, restart->from, restart->redone_steps,
                                             restart->redone_steps == 1 ? "" : "s");
  if (fault.kind != FaultKind::Flip) return;
  const int64_t damaged_step = step_of_folder_name(fs::path(fault.damaged).filename().string());
  const bool is_repaired = restart->from == "parity";
  fault.happened = (is_repaired                            ? "the damage was repaired: "
                    : restart->checkpoint == fault.damaged ? "the damage was not noticed: "
                    : restart->step > damaged_step         ? "a newer checkpoint was whole: "
                                                           : "the damage was noticed: ") +
                   fault.happened;
}

void tell_save(const RunLog& log, InjectedFault& fault) {
  const auto save = std::find_if(log.saves.begin(), log.saves.end(),
                                 [&](const auto& s) { return s.time_s > fault.time_s; });
  fault.happened = save == log.saves.end() ? "nothing was saved after it" : "saved again";
  if (save != log.saves.end()) fault.recovery_ms = 1e3 * (save->time_s - fault.time_s);
}

}  // namespace

Result<StormEnd> run_storm(const StormJob& job, const FaultPlan& plan, const StormMachine& machine,
                           const TakenSignals& signals) {
  TRIREME_TRY(child, ChildJob::start(job.launch, job.log, signals.before()));
  return Storm(job, plan, machine, signals, child).run();
}

void tell_recoveries(const RunLog& log, bool ended_well, std::vector<InjectedFault>& faults) {
  for (InjectedFault& fault : faults) {
    if (ends_epoch(fault.kind)) {
      tell_restart(log, fault);
    } else {
      tell_save(log, fault);
    }
    if (!fault.was_reached) fault.happened = "the rank has not come there";
    fault.survived = fault.was_reached && (ended_well || fault.recovery_ms.has_value());
  }
}

}  // namespace trireme
