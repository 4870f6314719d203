#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "program/timeline.h"
#include "schema/program.h"

namespace trireme {

// Durations of the operations of one stage for one micro-batch.
struct StageTimes {
  double f_s = 1;
  double b_s = 1;
  double w_s = 1;
  double bw_s = -1;  // negative: b_s + w_s
  double fb_s = -1;  // for the pair whose forward is of this stage; negative: f_s + bw_s
};

// The entry of a stage in a list with one entry for all stages, or one for each.
template <typename T>
const T& of_stage(const std::vector<T>& values, int stage) {
  return values.size() == 1 ? values.front() : values[size_t(stage)];
}

// Seconds of an action that a stage computes; nullopt for any other. `of_chunk(c)` gives the times
// of the stage in chunk c of the action's rank.
template <typename TimesOfChunk>
std::optional<double> compute_s(const Action& action, const TimesOfChunk& of_chunk) {
  const auto bw = [](const StageTimes& t) { return t.bw_s >= 0 ? t.bw_s : t.b_s + t.w_s; };
  switch (action.kind) {
    case ActionKind::F: {
      const StageTimes& f = of_chunk(action.chunk);
      return action.beside == Beside::Next && f.fb_s >= 0 ? f.fb_s : f.f_s;
    }
    case ActionKind::B:
      return of_chunk(action.chunk).b_s;
    case ActionKind::W:
      return of_chunk(action.chunk).w_s;
    case ActionKind::BW:
      // Schedules with pairs have two chunks. The time of a pair is recorded with its F.
      if (action.beside == Beside::Previous && of_chunk(1 - action.chunk).fb_s >= 0) return 0.0;
      return bw(of_chunk(action.chunk));
    case ActionKind::FB: {
      const StageTimes& f = of_chunk(action.chunk);
      return f.fb_s >= 0 ? f.fb_s : f.f_s + bw(of_chunk(action.chunk_b));
    }
    default:
      return std::nullopt;
  }
}

struct Link {
  double latency_s = 0;
  double bytes_per_s = 0;  // 0: a message takes only the latency
};

struct Costs {
  std::vector<StageTimes> stages = {StageTimes{}};  // one entry for all stages, or [stage]
  Link link;                                        // between any two ranks, in each direction
  std::function<Link(int from, int to)> link_of;    // if links differ; empty: `link`
  double message_bytes = 0;                         // one activation or gradient between stages
  std::vector<double> saved_bytes = {0};            // saved activations of F: one entry, or [stage]
  double held_for_w = 1;                            // fraction that remains saved from B to W
  bool blocking = false;  // Send and Recv occupy their rank until the message has arrived
  // Seconds of any other action (Step, Unshard, ReduceGrad, ...); if empty they take no time.
  std::function<double(int rank, const Action&)> other_s;
  // Seconds by which an action of a rank takes longer than these costs say, by its index in the
  // program; if empty, none does. Transfers between stages are not asked for.
  std::function<double(int rank, size_t index)> extra_s;
};

// Three quantities are called "the bubble". For equal ranks with work W each, and makespan M:
struct Bubbles {
  double of_ideal = 0;     // (M - W) / W: (p-1)/m in lectures
  double of_makespan = 0;  // (M - W) / M: share of the time in which devices idle, (p-1)/(m+p-1)
  // (S - W) / S, with S the longest time from a rank's first action to its last. This is the rate
  // of the zero-bubble papers, which is right if ranks need not step together.
  double of_span = 0;
};

struct RankSimulation {
  double busy_s = 0;
  double first_start_s = 0;
  double last_end_s = 0;
  // Idle although all inputs had been computed, because they were in flight.
  double exposed_comm_s = 0;
  int peak_live_w = 0;    // most activations alive, in chunks, if W frees them
  int peak_live_b = 0;    // the same if B frees them
  double peak_bytes = 0;  // of saved_bytes a part is freed at B and the rest (held_for_w) at W
};

struct LinkTraffic {
  int from = 0;
  int to = 0;
  int64_t messages = 0;
  double bytes = 0;
  double busy_s = 0;  // bytes / bytes_per_s
};

struct Simulation {
  double makespan_s = 0;
  double longest_span_s = 0;
  Bubbles bubbles;
  std::vector<RankSimulation> ranks;
  std::vector<LinkTraffic> links;  // the links in use, by (from, to)
  Timeline timeline;
};

// Runs every rank's list in order. A result is sent to the next stage as soon as it is computed
// (transfers are asynchronous: the latency delays only the receiver, and messages on one link
// follow each other). If the schedule has Send and Recv, a message leaves once both have been
// reached; with `blocking` they also occupy their rank. A schedule that hangs is an Infeasible
// error that says where every rank stands.
Result<Simulation> simulate(const Schedule& schedule, const Costs& costs);

// A Usage error if a number is invalid, or a list has neither one entry nor one per stage.
Status check_costs(int num_stages, const Costs& costs);

}  // namespace trireme
