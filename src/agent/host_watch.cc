#include "agent/host_watch.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "agent/process_stat.h"
#include "base/clock.h"
#include "watch/device_statistics.h"
#include "watch/host_evidence.h"
#include "watch/job_watch.h"
#include "watch/watchdog.h"

namespace trireme {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(10);
constexpr int64_t kStatEvery = 5;                 // looks between two readings of /proc/PID/stat
constexpr int64_t kCountEveryNs = 1'000'000'000;  // between two readings of the host's counters
constexpr size_t kKeptCounters = 12;              // readings
constexpr double kBeforeS = 5.0;                  // the reading before a failure is so old
constexpr double kCollectS = 0.2;
constexpr int64_t kMostDelayNs = 300'000'000;  // until a rank that hangs is killed in any case
constexpr int64_t kFreshNs = 2'000'000'000;    // evidence of the same failure is not older
constexpr auto kLastEvidenceS = std::chrono::seconds(2);
constexpr size_t kKeptEnded = 64;  // processes, for the evidence of their failure

std::string maps_of(int pid) {
  std::ifstream file(fmt::format("/proc/{}/maps", pid));
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

constexpr std::string_view kKilled = "Killed process ";

// The lines of the kernel without those that tell of another process that was killed.
std::vector<std::string> lines_about(int pid, const std::vector<std::string>& lines) {
  std::vector<std::string> about;
  const std::string own = fmt::format("{}{} ", kKilled, pid);
  for (const std::string& line : lines) {
    const bool is_other =
        line.find(kKilled) != std::string::npos && line.find(own) == std::string::npos;
    if (!is_other) about.push_back(line);
  }
  return about;
}

bool was_killed_by_kernel(const std::vector<std::string>& lines) {
  return std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
    return line.find(kKilled) != std::string::npos;
  });
}

struct Watched {
  int64_t process = 0;
  int pid = -1;
  std::shared_ptr<SharedRankPages> pages;
  std::shared_ptr<const CodeMap> code = {};
  std::optional<ProcessStat> stat = {};
  bool is_alive = true;
};

struct Collected {
  HostEvidence evidence;
  int64_t at_ns = 0;
};

struct HangVerdict {
  int64_t process = 0;
  std::string what;  // for the evidence
  std::string why;   // for users
};

HangVerdict verdict_of(const RankVerdict& found) {
  const int num_waiting = found.blame.num_waiting;
  return {found.process, found.blame.why,
          fmt::format("did not answer for {:.2f} s (budget {:.2f} s): it {}; {} rank{} of its host "
                      "waited for it",
                      double(found.silent_ns) * 1e-9, double(found.budget_ns) * 1e-9,
                      found.blame.why, num_waiting, num_waiting == 1 ? "" : "s")};
}

struct Task {
  std::string folder;
  std::string failure;
};

}  // namespace

struct HostWatch::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Watched> ranks;
  std::vector<Watched> ended;  // that have failed
  std::deque<HostCounters> counters;
  const Devices devices =
      Devices();  // read only by this thread, because a lost device may never answer
  KernelLog kernel;
  std::vector<std::string> kernel_lines;  // not told in evidence yet
  std::optional<HangVerdict> verdict;
  std::optional<HangVerdict> asked;  // by the leader of the job, and not begun yet
  std::vector<WatchedProcess> watched;
  int64_t watched_ns = 0, told_ns = 0;
  int64_t verdict_ns = 0;
  bool is_verdict_ready = false;
  bool is_taken = false;  // the owner knows about it
  std::vector<SlowRank> slow;
  bool must_collect = false;
  std::optional<Collected> collected;
  std::deque<Task> tasks;
  bool is_over = false;
  bool has_ended = false;
  int event = -1;

  ~State() {
    if (event >= 0) ::close(event);
  }
  // Both need the lock.
  void ring() const {
    const uint64_t one = 1;
    (void)!::write(event, &one, sizeof one);
  }
  void take_kernel_lines();
  HostCounters counters_before(double at_s) const;

  // On the thread.
  void live();
  std::optional<RankVerdict> look(Watchdog& dog, int64_t look);
  void count();
  void collect();
  void write(const Task& task);
};

void HostWatch::State::take_kernel_lines() {
  for (std::string& line : kernel.take()) kernel_lines.push_back(std::move(line));
}

// The newest reading that is old enough not to have counted what has led to the failure.
HostCounters HostWatch::State::counters_before(double at_s) const {
  HostCounters before = counters.empty() ? HostCounters{} : counters.front();
  for (const HostCounters& one : counters) {
    if (one.taken_s <= at_s - kBeforeS) before = one;
  }
  return before;
}

void HostWatch::State::count() {
  HostCounters now = read_host_counters();
  now.device_errors = uncorrected_errors(devices.read());
  const std::lock_guard lock(mutex);
  counters.push_back(now);
  if (counters.size() > kKeptCounters) counters.pop_front();
  // Lines from before a failure say what has led to it, but old ones do not.
  take_kernel_lines();
  const size_t most = 40;
  if (kernel_lines.size() > most) {
    kernel_lines.erase(kernel_lines.begin(), kernel_lines.end() - std::ptrdiff_t(most));
  }
}

std::optional<RankVerdict> HostWatch::State::look(Watchdog& dog, int64_t look) {
  std::vector<ObservedRank> observed;
  std::vector<std::pair<int64_t, int>> unmapped;
  {
    const std::lock_guard lock(mutex);
    for (Watched& rank : ranks) {
      if (look % kStatEvery == 0 || !rank.stat) rank.stat = stat_of_process(rank.pid);
      const ProcessStat stat = rank.stat.value_or(ProcessStat{});
      observed.push_back({.process = rank.process,
                          .sample = RankSample::of(**rank.pages),
                          .is_stopped = stat.is_stopped(),
                          .is_runnable = stat.state == 'R',
                          .awaits_disk = stat.state == 'D',
                          .cpu_ns = stat.cpu_ns});
      if (!rank.code && (*rank.pages)->stacks.is_ready.load() != 0) {
        unmapped.emplace_back(rank.process, rank.pid);
      }
    }
  }
  for (const auto& [process, pid] : unmapped) {
    auto code = std::make_shared<const CodeMap>(maps_of(pid));
    const std::lock_guard lock(mutex);
    for (Watched& rank : ranks) {
      if (rank.process == process) rank.code = code;
    }
  }
  const std::optional<RankVerdict> found = dog.look(monotonic_ns(), observed);
  {
    const std::lock_guard lock(mutex);
    watched = dog.watched();
    watched_ns = monotonic_ns();
  }
  std::vector<SlowRank> newly_slow = dog.take_slow();
  if (!newly_slow.empty()) {
    const std::lock_guard lock(mutex);
    slow.insert(slow.end(), newly_slow.begin(), newly_slow.end());
    ring();
  }
  return found;
}

void HostWatch::State::collect() {
  std::vector<EvidenceRank> who;
  HostCounters before;
  {
    const std::lock_guard lock(mutex);
    must_collect = false;
    for (const auto* list : {&ended, &ranks}) {
      for (const Watched& one : *list) {
        const RankSample sample = RankSample::of(**one.pages);
        const bool is_stopped = one.is_alive && one.stat && one.stat->is_stopped();
        who.push_back({sample.rank, one.pid, one.is_alive, is_stopped, one.pages, one.code});
      }
    }
    ended.clear();
    before = counters_before(double(monotonic_ns()) * 1e-9);
  }
  HostEvidence evidence = collect_evidence(who, kCollectS);
  evidence.before = before;
  evidence.after = read_host_counters();
  evidence.after.device_errors = uncorrected_errors(devices.read());
  const std::lock_guard lock(mutex);
  take_kernel_lines();
  evidence.kernel_lines = kernel_lines;
  collected = Collected{std::move(evidence), monotonic_ns()};
}

void HostWatch::State::write(const Task& task) {
  std::optional<Collected> what;
  {
    const std::lock_guard lock(mutex);
    what = std::exchange(collected, std::nullopt);
  }
  if (!what) {
    collect();
    const std::lock_guard lock(mutex);
    what = std::exchange(collected, std::nullopt);
  }
  // A failure must not be hidden by another one: nobody could be told that its evidence is lost.
  (void)write_evidence(what->evidence, task.failure, task.folder).ok();
}

void HostWatch::State::live() {
  Watchdog dog;
  int64_t counted_ns = 0;
  for (int64_t number = 0;; ++number) {
    std::optional<Task> task;
    bool must_collect_now = false;
    {
      std::unique_lock lock(mutex);
      changed.wait_for(lock, kLookEvery, [&] { return is_over || must_collect || !tasks.empty(); });
      must_collect_now = must_collect;
      if (!must_collect && !tasks.empty()) {
        task = std::move(tasks.front());
        tasks.pop_front();
      }
      if (is_over && !must_collect_now && !task) break;
    }
    if (must_collect_now) {
      collect();
      continue;
    }
    if (task) {
      write(*task);
      continue;
    }
    const int64_t now_ns = monotonic_ns();
    if (now_ns - counted_ns >= kCountEveryNs) {
      counted_ns = now_ns;
      count();
    }
    const std::optional<RankVerdict> found = look(dog, number);
    {
      const std::lock_guard lock(mutex);
      std::optional<HangVerdict> next = std::exchange(asked, std::nullopt);
      if (found) next = verdict_of(*found);
      if (!next || (verdict && verdict->process == next->process)) continue;
      verdict = next;
      verdict_ns = monotonic_ns();
      is_verdict_ready = is_taken = false;
    }
    collect();
    const std::lock_guard lock(mutex);
    is_verdict_ready = true;
    ring();
  }
  const std::lock_guard lock(mutex);
  has_ended = true;
  changed.notify_all();
}

HostWatch::HostWatch() : state_(std::make_shared<State>()) {
  state_->event = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  std::thread([state = state_] { state->live(); }).detach();
}

HostWatch::~HostWatch() {
  std::unique_lock lock(state_->mutex);
  state_->is_over = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, kLastEvidenceS, [&] { return state_->has_ended; });
}

int HostWatch::fd() const { return state_->event; }

void HostWatch::add(int64_t process, int pid, std::shared_ptr<SharedRankPages> pages) {
  const std::lock_guard lock(state_->mutex);
  state_->ranks.push_back({process, pid, std::move(pages)});
}

FailureEvidence HostWatch::remove(int64_t process, bool has_failed) {
  FailureEvidence evidence;
  const HostCounters now = has_failed ? read_host_counters() : HostCounters{};
  const std::lock_guard lock(state_->mutex);
  const auto found = std::find_if(state_->ranks.begin(), state_->ranks.end(),
                                  [&](const Watched& one) { return one.process == process; });
  if (found == state_->ranks.end()) return evidence;
  Watched ended = std::move(*found);
  ended.is_alive = false;
  state_->ranks.erase(found);
  if (!has_failed) return evidence;
  const RankSample sample = RankSample::of(**ended.pages);
  evidence.phase = std::string(name_of(sample.phase));
  evidence.action = sample.action;
  evidence.action_code = sample.action_text();
  evidence.call = int64_t(sample.calls);
  evidence.first_sample = sample.first_sample;
  evidence.num_samples = sample.num_samples;
  evidence.nonfinite_steps = sample.nonfinite_steps;
  const HostCounters before = state_->counters_before(now.taken_s);
  const HostCounters newest = state_->counters.empty() ? before : state_->counters.back();
  if (before.taken_s > 0.0) {
    evidence.oom_kills = now.oom_kills - before.oom_kills;
    evidence.disk_errors = now.disk_errors - before.disk_errors;
    evidence.network_errors = now.network_errors - before.network_errors;
    evidence.memory_errors = now.memory_errors - before.memory_errors;
    evidence.throttled_ms = now.throttled_ms - before.throttled_ms;
    evidence.device_errors = newest.device_errors - before.device_errors;
  }
  state_->take_kernel_lines();
  evidence.kernel_lines = lines_about(ended.pid, state_->kernel_lines);
  if (state_->kernel.is_readable() && !was_killed_by_kernel(evidence.kernel_lines)) {
    evidence.oom_kills = 0;  // the kernel names whom it kills, and it was another process
  }
  if (state_->verdict && state_->verdict->process == process) {
    evidence.watchdog = state_->verdict->what;
  }
  const bool is_collected =
      state_->collected && monotonic_ns() - state_->collected->at_ns < kFreshNs;
  if (is_collected) return evidence;
  state_->ended.push_back(std::move(ended));
  if (state_->ended.size() > kKeptEnded) state_->ended.erase(state_->ended.begin());
  state_->must_collect = true;
  state_->changed.notify_all();
  return evidence;
}

std::vector<HangingRank> HostWatch::take_hanging() {
  uint64_t rings = 0;
  (void)!::read(state_->event, &rings, sizeof rings);
  const std::lock_guard lock(state_->mutex);
  const std::optional<HangVerdict>& verdict = state_->verdict;
  if (!verdict || state_->is_taken) return {};
  const bool is_late = monotonic_ns() - state_->verdict_ns > kMostDelayNs;
  if (!state_->is_verdict_ready && !is_late) return {};
  state_->is_taken = true;
  return {{verdict->process, verdict->why}};
}

std::optional<std::vector<WatchedProcess>> HostWatch::take_watched() {
  const std::lock_guard lock(state_->mutex);
  const std::vector<WatchedProcess>& watched = state_->watched;
  const bool is_silent = std::any_of(watched.begin(), watched.end(), [](const auto& one) {
    return one.rank.silent_ns > JobWatch::kSilentNs;
  });
  const int64_t due_ns =
      state_->told_ns + (is_silent ? JobWatch::kReportNs : JobWatch::kCalmReportNs);
  if (state_->watched_ns <= state_->told_ns || monotonic_ns() < due_ns) return std::nullopt;
  state_->told_ns = monotonic_ns();
  return watched;
}

void HostWatch::blame(int64_t process, const std::string& why) {
  const std::lock_guard lock(state_->mutex);
  state_->asked = HangVerdict{process, why, why};
}

std::vector<SlowRank> HostWatch::take_slow() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->slow, {});
}

void HostWatch::keep_evidence(const std::string& folder, const std::string& failure) {
  const std::lock_guard lock(state_->mutex);
  state_->tasks.push_back({folder, failure});
  state_->changed.notify_all();
}

}  // namespace trireme
