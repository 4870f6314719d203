#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <string_view>

#include "watch/crash_point.h"

namespace trireme {

// What a rank is doing.
enum class RankPhase : uint32_t {
  Start,     // until it has joined its epoch
  Compile,   // it checks the plan, opens the data and allocates its memory
  Load,      // it restores the state from a checkpoint, or makes initial values
  WarmUp,    // it measures the machine and opens the records of the run
  Step,      // it trains
  Evaluate,  // it evaluates, samples or counts histograms
  Save,      // it waits for a checkpoint
  Recover,   // another rank is lost: it waits for the next epoch
  Leave,     // it writes its reports and ends
};
inline constexpr std::string_view kRankPhaseNames[] = {
    "start", "compile", "load", "warm-up", "step", "evaluate", "save", "recover", "leave"};
inline constexpr int kNumRankPhases = 9;
inline std::string_view name_of(RankPhase phase) {
  const auto index = static_cast<uint32_t>(phase);
  return index < kNumRankPhases ? kRankPhaseNames[index] : "unknown";
}

inline constexpr CrashPoint entry_of(RankPhase phase) {
  return static_cast<CrashPoint>(static_cast<uint32_t>(phase) + 1);
}
static_assert(entry_of(RankPhase::Leave) == CrashPoint::Leave);

// Groups with lower ids show which of their collectives a rank has called last.
inline constexpr int kShownGroups = 64;

// Where a rank is. It lies in memory that the agent of the host reads at any time, so the rank
// writes it without a system call and without a lock. All bytes are zero at first. The calling
// thread of the rank writes it; a beat that another thread loses does not matter. Only crash_at()
// is for others. Times are those of the monotonic clock.
class ProgressPage {
 public:
  // The rank has a place in an epoch.
  void begin_epoch(uint64_t epoch, int rank, int64_t now_ns) {
    set(rank_, rank);
    set(stage_, 0);
    set(steps_, int64_t{0});
    set(computed_ns_, int64_t{0});
    set(num_samples_, int64_t{0});
    for (auto& issued : issued_) set(issued, uint64_t{0});
    epoch_.store(epoch, std::memory_order_release);
    enter(RankPhase::Compile, now_ns);
  }
  // Ranks of one stage of the pipeline compute alike.
  void set_stage(int stage) { set(stage_, stage); }
  void enter(RankPhase phase, int64_t now_ns) {
    set(action_, int64_t{-1});
    set(phase_ns_, now_ns);
    set(phase_, static_cast<uint32_t>(phase));
    beat();
    reach(entry_of(phase));
  }
  // The process dies at once if it was asked to do so here.
  void reach(CrashPoint point) {
    if (get(crash_at_) != static_cast<uint32_t>(point)) return;
    crash_at(CrashPoint::None);
    std::raise(SIGKILL);
  }
  // Asks the rank to die where it reaches the point next; None: nowhere. Another process calls it.
  void crash_at(CrashPoint point) { set(crash_at_, static_cast<uint32_t>(point)); }
  // True if nothing is asked any more, so the rank has died.
  bool is_past_crash() const { return get(crash_at_) == 0; }
  RankPhase phase() const { return static_cast<RankPhase>(get(phase_)); }

  // Shows the samples on which the rank works now; num_samples = 0: on none.
  void show_batch(int64_t first_sample, int64_t num_samples) {
    set(first_sample_, first_sample);
    set(num_samples_, num_samples);
  }
  void begin_step(int64_t step, int64_t now_ns) {
    set(step_, step);
    set(step_ns_, now_ns);
    enter(RankPhase::Step, now_ns);
  }
  // `computed_ns`: of the step, without the time in which it has waited.
  void end_step(int64_t took_ns, int64_t computed_ns, int64_t nonfinite_steps) {
    set(took_ns_, took_ns);
    set(computed_ns_, get(computed_ns_) + computed_ns);
    set(nonfinite_steps_, nonfinite_steps);
    // A reader that sees the new number of steps also sees the times of the last one.
    steps_.store(get(steps_) + 1, std::memory_order_release);
    beat();
  }
  void begin_action(int64_t index) {
    set(action_, index);
    beat();
  }
  // The rank makes a collective, or sends or receives (`sequence` 0).
  void begin_call(int group, uint64_t sequence, int collective, int64_t bytes) {
    set(calls_, get(calls_) + 1);
    set(collective_, collective);
    set(bytes_, bytes);
    if (sequence > 0 && group < kShownGroups) {
      issued_[size_t(group)].store(sequence, std::memory_order_release);
    }
    beat();
  }
  // It waits in a call of a group for a peer (world rank; -1: its own transfers).
  void begin_wait(int peer, int group, uint64_t sequence, int64_t since_ns) {
    set(wait_peer_, peer);
    set(wait_group_, group);
    set(wait_sequence_, sequence);
    wait_ns_.store(since_ns, std::memory_order_release);
    beat();
  }
  void end_wait() {
    wait_ns_.store(0, std::memory_order_release);
    beat();
  }
  void add_waited(int64_t ns) { set(waited_ns_, get(waited_ns_) + ns); }
  int64_t waited_ns() const { return get(waited_ns_); }
  // Shows progress of work that has no steps, such as bytes of a file.
  void beat() { set(beats_, get(beats_) + 1); }
  // How long a single rank may do file work, and how long a rank may wait, as the run is
  // configured.
  void set_limits(double file_s, double wait_s) {
    set(file_limit_ns_, int64_t(file_s * 1e9));
    set(wait_limit_ns_, int64_t(wait_s * 1e9));
  }

 private:
  friend struct RankSample;
  template <typename T>
  static void set(std::atomic<T>& word, T value) {
    word.store(value, std::memory_order_relaxed);
  }
  template <typename T>
  static T get(const std::atomic<T>& word) {
    return word.load(std::memory_order_relaxed);
  }

  std::atomic<uint64_t> beats_;  // grows with everything that the rank does
  std::atomic<uint64_t> epoch_;  // 0: it has no place yet
  std::atomic<int32_t> rank_;
  std::atomic<int32_t> stage_;
  std::atomic<uint32_t> phase_;
  std::atomic<int32_t> collective_;       // of the last call
  std::atomic<int64_t> phase_ns_;         // when the phase began
  std::atomic<int64_t> step_;             // that runs, or the last one
  std::atomic<int64_t> step_ns_;          // when it began
  std::atomic<int64_t> first_sample_;     // of the batch on which the rank works
  std::atomic<int64_t> num_samples_;      // 0: on none
  std::atomic<int64_t> action_;           // index in the program; -1: none
  std::atomic<int64_t> steps_;            // done in this epoch
  std::atomic<int64_t> took_ns_;          // of the last step
  std::atomic<int64_t> computed_ns_;      // in all steps of the epoch, without waits
  std::atomic<int64_t> nonfinite_steps_;  // in a row
  std::atomic<int64_t> waited_ns_;        // in all calls so far
  std::atomic<uint64_t> calls_;           // of all groups
  std::atomic<int64_t> bytes_;            // of the last call
  std::atomic<int64_t> wait_ns_;          // since when it waits; 0: it does not
  std::atomic<uint64_t> wait_sequence_;   // of the group's collective; 0: a send or a receive
  std::atomic<int32_t> wait_group_;
  std::atomic<int32_t> wait_peer_;
  std::atomic<int64_t> file_limit_ns_;  // 0: not set yet
  std::atomic<int64_t> wait_limit_ns_;
  std::atomic<uint32_t> crash_at_;                          // CrashPoint
  std::array<std::atomic<uint64_t>, kShownGroups> issued_;  // [group] last collective
};

}  // namespace trireme
