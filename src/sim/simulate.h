#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "program/timeline.h"
#include "spec/program.h"

namespace trireme {

// How long the operations of one stage take for one micro-batch.
struct StageTimes {
  double f_s = 1;
  double b_s = 1;
  double w_s = 1;
  double bw_s = -1;  // negative: b_s + w_s
  double fb_s = -1;  // of the pair whose forward is this stage's; negative: f_s + bw_s
};

struct Link {
  double latency_s = 0;
  double bytes_per_s = 0;  // 0: a message takes only the latency
};

struct Costs {
  std::vector<StageTimes> stages = {StageTimes{}};  // one for all stages, or [stage]
  Link link;                                        // between any two ranks, each way
  std::function<Link(int from, int to)> link_of;    // where links differ; empty: `link`
  double message_bytes = 0;                         // one activation or gradient between stages
  std::vector<double> saved_bytes = {0};            // activations held by F: one, or [stage]
  double held_for_w = 1;                            // fraction of them still held from B to W
  bool blocking = false;  // Send and Recv occupy their rank until the message has arrived
  // Seconds of any other action (Step, Unshard, ReduceGrad, ...); empty: they take no time.
  std::function<double(int rank, const Action&)> other_s;
};

// Three things are called "the bubble". With equal ranks, work W each, and makespan M:
struct Bubbles {
  double of_ideal = 0;     // (M - W) / W: lectures' (p-1)/m
  double of_makespan = 0;  // (M - W) / M: share of the time that devices idle, (p-1)/(m+p-1)
  double of_span = 0;  // (S - W) / S, S the longest time from a rank's first action to its last:
                       // the zero-bubble papers' rate, right where ranks need not step together
};

struct RankSimulation {
  double busy_s = 0;
  double first_start_s = 0;
  double last_end_s = 0;
  double exposed_comm_s = 0;  // idle although all inputs had been produced: they were on their way
  int peak_live_w = 0;        // most activations alive, in chunks, when W frees them
  int peak_live_b = 0;        // the same when B frees them
  double peak_bytes = 0;      // saved_bytes, part of them freed at B (held_for_w), the rest at W
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
  std::vector<LinkTraffic> links;  // those in use, by (from, to)
  Timeline timeline;
};

// Runs every rank's list in order. A result is on its way to the next stage as soon as it is made
// (asynchronous transfers: the latency delays the receiver only; messages on one link follow each
// other); where the schedule has Send and Recv, a message leaves once both have been reached, and
// with `blocking` they hold up their rank. A schedule that hangs is an error (Infeasible) that says
// where every rank stands.
Result<Simulation> simulate(const Schedule& schedule, const Costs& costs);

// Usage: numbers that cannot be, or not one entry for all or per stage.
Status check_costs(int num_stages, const Costs& costs);

}  // namespace trireme
