#include "sim/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "program/make_schedule.h"
#include "program/send_recv.h"

namespace trireme {
namespace {

Schedule make(const std::string& kind, int p, int m, int v = 0) {
  return make_schedule(kind, {p, m, v}).value();
}

Costs costs(double f, double b, double w, double comm) {
  return {.stages = {{.f_s = f, .b_s = b, .w_s = w}}, .link = {.latency_s = comm}};
}

Simulation run(const Schedule& schedule, const Costs& costs) {
  return simulate(schedule, costs).value();
}

// Times of the form k / 8 add up exactly, so closed forms can be compared with ==.
struct Times {
  double f, b, w, c;
  double t() const { return f + b + w; }
};

std::vector<Times> random_times(int count, unsigned seed, double largest_comm) {
  std::mt19937 random(seed);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random) / 8.0;
  };
  std::vector<Times> times = {{1, 1, 1, 0}, {2, 2, 1, 0}, {1, 2, 3, 0}};
  for (int i = 0; i < count; ++i) {
    times.push_back({draw(1, 40), draw(1, 40), draw(1, 40),
                     largest_comm > 0 ? draw(0, static_cast<int>(8 * largest_comm)) : 0});
  }
  return times;
}

// Calls law(p, m, times) over a grid.
template <typename Law>
void for_grid(double largest_comm, Law&& law) {
  for (const Times& t : random_times(12, 1, largest_comm)) {
    for (int p = 1; p <= 8; ++p) {
      for (const int m : {1, 2, 3, 4, 6, 8, 15, 16, 24}) {
        law(p, m, t);
        if (testing::Test::HasFailure()) {
          ADD_FAILURE() << "p " << p << " m " << m << " F " << t.f << " B " << t.b << " W " << t.w
                        << " C " << t.c;
          return;
        }
      }
    }
  }
}

TEST(Simulate, NaiveAndGpipeTakeTheirClosedForms) {
  for_grid(5, [](int p, int m, const Times& t) {
    const Costs c = costs(t.f, t.b, t.w, t.c);
    EXPECT_EQ(run(make("naive", p, m), c).makespan_s, m * (p * t.t() + 2 * (p - 1) * t.c));
    EXPECT_EQ(run(make("gpipe", p, m), c).makespan_s, (m + p - 1) * t.t() + 2 * (p - 1) * t.c);
  });
}

TEST(Simulate, OneFOneBPaysLatencyEveryPMicrobatches) {
  for_grid(0, [](int p, int m, const Times& t) {
    EXPECT_EQ(run(make("1f1b", p, m), costs(t.f, t.b, t.w, 0)).makespan_s, (m + p - 1) * t.t());
  });
  for_grid(2, [](int p, int m, const Times& t) {
    if (p < 2 || m % p != 0) return;
    EXPECT_NEAR(run(make("1f1b", p, m), costs(t.f, t.b, t.w, t.c)).makespan_s,
                (m + p - 1) * t.t() + 2 * t.c * (p - 2) + 2 * t.c * (p - 1) * m / p, 1e-9);
  });
}

TEST(Simulate, InterleavedTakesItsClosedForm) {
  for_grid(2, [](int p, int m, const Times& t) {
    if (p < 2 || m % p != 0 || t.c > std::min(t.f, t.b + t.w)) return;
    for (int v = 2; v <= 4; ++v) {
      EXPECT_EQ(run(make("interleaved", p, m, v), costs(t.f, t.b, t.w, t.c)).makespan_s,
                (m * v + p - 1) * t.t() + 2 * (p * v - 1) * t.c);
    }
  });
}

TEST(Simulate, ZeroBubbleSchedulesTakeTheirClosedForms) {
  for_grid(0, [](int p, int m, const Times& t) {
    const Costs c = costs(t.f, t.b, t.w, 0);
    const double work = m * t.t();
    if (m >= p) {
      const Simulation h1 = run(make("zb_h1", p, m), c);
      EXPECT_EQ(h1.makespan_s, work + (p - 1) * (t.f + t.b - std::min({t.f, t.b, t.w})));
      EXPECT_EQ(h1.longest_span_s, work + (p - 1) * (t.f + t.b - std::min(t.f, t.w)));
    }
    if (m >= 2 * p - 1) {
      const Simulation h2 = run(make("zb_h2", p, m), c);
      const double bubble = std::max(t.f + t.b - 2 * t.w, t.b - t.f);
      EXPECT_EQ(h2.makespan_s, work + (p - 1) * std::max(t.f, bubble));
      EXPECT_EQ(h2.longest_span_s, work + (p - 1) * std::max(0.0, bubble));
    }
  });
}

TEST(Simulate, SchedulesOfTwoChunksTakeTheirClosedFormsAtEqualTimes) {
  for (int p = 1; p <= 8; ++p) {
    for (int m = std::max(2, 2 * p); m <= 24; ++m) {
      const Costs c = costs(1, 1, 1, 0);
      const Simulation v = run(make("zb_v", p, m), c);
      EXPECT_EQ(v.makespan_s, 2 * m * 3 + (p - 1));
      EXPECT_EQ(v.longest_span_s, 2 * m * 3);
      const double bubble = 3 + 1 + 1 - 3 * 1;  // T_FB + T_B + T_W - 3 T_W
      EXPECT_EQ(run(make("dualpipev", p, m), c).makespan_s, 2 * m * 3 + (p - 1) * bubble);
      if (p % 2 != 0 || m % 2 != 0) continue;
      EXPECT_EQ(run(make("dualpipe", p, m), c).makespan_s, m * 3 + (p / 2 - 1) * bubble);
    }
  }
}

TEST(Simulate, PeaksOfLiveActivationsAreThePublishedOnes) {
  for (int p = 1; p <= 8; ++p) {
    for (const int m : {1, 2, 3, 4, 7, 8, 16, 24}) {
      const Costs c = costs(1, 1, 1, 0);
      for (int r = 0; r < p; ++r) {
        const auto peak = [&](const std::string& kind, int v = 0) {
          return run(make(kind, p, m, v), c).ranks[r];
        };
        EXPECT_EQ(peak("naive").peak_live_w, 1);
        EXPECT_EQ(peak("gpipe").peak_live_w, m);
        EXPECT_EQ(peak("1f1b").peak_live_w, std::min(m, p - r));
        if (m >= p) {
          EXPECT_EQ(peak("zb_h1").peak_live_w, p);
        }
        EXPECT_EQ(peak("zb_h1").peak_live_b, std::min(m, p - r));
        if (m >= 2 * p - 1) {
          EXPECT_EQ(peak("zb_h2").peak_live_w, 2 * p - 1);
          EXPECT_EQ(peak("zb_h2").peak_live_b, 2 * (p - r) - 1);
          EXPECT_EQ(peak("zb_v").peak_live_w, 2 * p);
        }
        for (int v = 2; v <= 3 && m % p == 0; ++v) {
          EXPECT_EQ(peak("interleaved", v).peak_live_w,
                    std::min(m * v, 2 * (p - 1 - r) + (v - 1) * p + 1));
        }
        if (m >= 2 * p) {
          EXPECT_LE(peak("dualpipev").peak_live_w, 2 * p + 1);
        }
        if (m >= 2 * p && p % 2 == 0 && m % 2 == 0) {
          EXPECT_LE(peak("dualpipe").peak_live_w, p + 1);
        }
      }
    }
  }
}

TEST(Simulate, MessagesAndBytesPerLinkAreCounted) {
  const int p = 4;
  const int m = 8;
  Costs c = costs(1, 1, 1, 0);
  c.message_bytes = 10;
  const auto messages = [&](const std::string& kind, int v = 0) {
    int64_t sum = 0;
    for (const LinkTraffic& link : run(make(kind, p, m, v), c).links) {
      EXPECT_EQ(link.bytes, 10.0 * static_cast<double>(link.messages));
      sum += link.messages;
    }
    return sum;
  };
  for (const std::string kind : {"naive", "gpipe", "1f1b", "zb_h1", "zb_h2", "dualpipe"}) {
    EXPECT_EQ(messages(kind), 2 * m * (p - 1)) << kind;
  }
  EXPECT_EQ(messages("interleaved", 3), 2 * m * (3 * p - 1));
  EXPECT_EQ(messages("zb_v"), 2 * m * (2 * p - 2));
  EXPECT_EQ(messages("dualpipev"), 2 * m * (2 * p - 2));
}

// Qi et al. 2024: Table 5 (bubble rates, of_span), computed from Table 6 (profiled times in ms).
TEST(Simulate, ReproducesTheZeroBubblePapersTable) {
  struct Row {
    int p, m;
    double f, b, w, c;
    double one_f_one_b, h1, h2;
  };
  const Row rows[] = {
      {8, 24, 18.522, 18.086, 9.337, 0.601, 0.2431, 0.1585, 0.1083},
      {8, 32, 18.513, 18.086, 9.331, 0.626, 0.1985, 0.1242, 0.0837},
      {8, 64, 18.546, 18.097, 9.321, 0.762, 0.1240, 0.0674, 0.0444},
      {8, 24, 29.718, 29.444, 19.927, 0.527, 0.2347, 0.1323, 0.0698},
      {8, 32, 29.802, 29.428, 19.530, 0.577, 0.1898, 0.1045, 0.0559},
      {8, 64, 29.935, 29.621, 19.388, 0.535, 0.1091, 0.0554, 0.0294},
      {16, 48, 11.347, 11.248, 8.132, 0.377, 0.2552, 0.1397, 0.0672},
      {16, 64, 11.307, 11.254, 8.101, 0.379, 0.2082, 0.1088, 0.0516},
      {16, 128, 11.325, 11.308, 8.109, 0.378, 0.1251, 0.0576, 0.0266},
      {32, 96, 10.419, 10.207, 7.715, 0.408, 0.2646, 0.1421, 0.0641},
      {32, 128, 10.408, 10.204, 7.703, 0.408, 0.2168, 0.1106, 0.0490},
      {32, 256, 10.402, 10.248, 7.698, 0.460, 0.1352, 0.0594, 0.0257},
  };
  for (const Row& row : rows) {
    const auto rate = [&](const std::string& kind) {
      const Costs c = costs(row.f, row.b, row.w, row.c);
      return std::round(1e4 * run(make(kind, row.p, row.m), c).bubbles.of_span) / 1e4;
    };
    EXPECT_DOUBLE_EQ(rate("1f1b"), row.one_f_one_b) << "p " << row.p << " m " << row.m;
    EXPECT_DOUBLE_EQ(rate("zb_h1"), row.h1) << "p " << row.p << " m " << row.m;
    EXPECT_DOUBLE_EQ(rate("zb_h2"), row.h2) << "p " << row.p << " m " << row.m;
  }
}

TEST(Simulate, NamesThreeBubbles) {
  const Simulation s = run(make("1f1b", 4, 8), costs(1, 1, 1, 0));
  EXPECT_DOUBLE_EQ(s.bubbles.of_ideal, 3.0 / 8);
  EXPECT_DOUBLE_EQ(s.bubbles.of_makespan, 3.0 / 11);
  const Simulation h2 = run(make("zb_h2", 4, 8), costs(1, 1, 1, 0));
  EXPECT_EQ(h2.bubbles.of_span, 0);
  EXPECT_GT(h2.bubbles.of_makespan, 0);
}

// Laws of every simulation: no two actions of a rank overlap, and the makespan is at least the time
// that a rank computes and waits.
void expect_laws(const Schedule& schedule, const Costs& c, const std::string& what) {
  const Simulation s = run(schedule, c);
  for (int rank = 0; rank < schedule.num_ranks; ++rank) {
    double busy = 0;
    for (size_t i = 0; i < schedule.programs[rank].size(); ++i) {
      const Span& span = s.timeline[rank][i];
      ASSERT_LE(span.start_s, span.end_s) << what;
      if (i > 0) {
        ASSERT_GE(span.start_s, s.timeline[rank][i - 1].end_s) << what;
      }
      if (schedule.programs[rank][i].peer < 0) busy += span.duration_s();
    }
    ASSERT_NEAR(busy, s.ranks[rank].busy_s, 1e-9) << what;
    ASSERT_LE(busy, s.makespan_s + 1e-9) << what;
    ASSERT_GE(s.ranks[rank].exposed_comm_s, 0) << what;
    ASSERT_LE(busy + s.ranks[rank].exposed_comm_s, s.makespan_s + 1e-9) << what;
  }
}

Costs random_costs(int num_stages, std::mt19937& random) {
  std::uniform_real_distribution<double> draw(0.1, 3);
  Costs c;
  c.stages.clear();
  for (int s = 0; s < num_stages; ++s)
    c.stages.push_back({draw(random), draw(random), draw(random)});
  c.link = {.latency_s = draw(random) / 3, .bytes_per_s = random() % 2 == 0 ? 0 : 5 * draw(random)};
  c.message_bytes = 1;
  return c;
}

TEST(Simulate, LawsHoldForRandomShapesAndUnevenStages) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const int p = 1 + static_cast<int>(random() % 6);
    const int m = 1 + static_cast<int>(random() % 14);
    for (const std::string& kind : schedule_kinds()) {
      const Result<Schedule> schedule = make_schedule(kind, {p, m});
      if (!schedule.ok()) continue;
      Costs c = random_costs(num_stages(*schedule), random);
      const std::string what = "seed " + std::to_string(seed) + " " + kind;
      expect_laws(*schedule, c, what);
      const Schedule sent = add_send_recv(*schedule);
      expect_laws(sent, c, what + " with transfers");
      c.blocking = true;
      expect_laws(sent, c, what + " with blocking transfers");
    }
  }
}

// With the times for which they were placed, posted transfers take no longer than implicit ones.
TEST(Simulate, InsertedTransfersCostNothing) {
  for (const std::string& kind : schedule_kinds()) {
    for (const auto& [p, m] : {std::pair{2, 4}, {4, 8}, {6, 12}, {8, 24}}) {
      for (const Times& t : random_times(3, 5, 2)) {
        const Schedule schedule = make(kind, p, m);
        const Costs c = costs(t.f, t.b, t.w, t.c);
        EXPECT_EQ(run(add_send_recv(schedule, {t.f, t.b, t.w, t.c}), c).makespan_s,
                  run(schedule, c).makespan_s)
            << kind << " p " << p << " F " << t.f << " B " << t.b << " W " << t.w << " C " << t.c;
      }
    }
  }
}

// The published mistake: transfers placed next to their users hang if they block.
TEST(Simulate, NaiveBlockingSendsHangAndAreNamed) {
  const Schedule schedule = make("1f1b", 2, 3);
  Schedule sent = schedule;
  for (int rank = 0; rank < 2; ++rank) {
    Program program;
    const auto peer = static_cast<int16_t>(1 - rank);
    const auto transfer = [&](ActionKind kind, int k) {
      program.push_back({.kind = kind, .microbatch = k, .peer = peer});
    };
    for (const Action& action : schedule.programs[rank]) {
      const int k = action.microbatch;
      const bool is_f = action.kind == ActionKind::F;
      if (is_f && rank == 1) transfer(ActionKind::RecvActivation, k);
      if (!is_f && rank == 0) transfer(ActionKind::RecvGrad, k);
      program.push_back(action);
      if (is_f && rank == 0) transfer(ActionKind::SendActivation, k);
      if (!is_f && rank == 1) transfer(ActionKind::SendGrad, k);
    }
    sent.programs[rank] = program;
  }
  Costs c = costs(1, 1, 1, 0.25);
  EXPECT_TRUE(simulate(sent, c).ok());
  c.blocking = true;
  const Result<Simulation> hung = simulate(sent, c);
  ASSERT_FALSE(hung.ok());
  EXPECT_EQ(hung.error().message,
            "deadlock: rank 0 waits at position 3 (SF1>1), rank 1 waits at position 3 (SB0>0)");
}

TEST(Simulate, BandwidthSerialisesTheMessagesOfOneLink) {
  // With two stages, forwards of 1 s and messages of 2 s the link sets the pace, not the ranks.
  Costs c = costs(1, 0, 0, 0.5);
  c.link.bytes_per_s = 4;
  c.message_bytes = 8;
  const Simulation s = run(make("gpipe", 2, 5), c);
  EXPECT_DOUBLE_EQ(s.ranks[1].busy_s, 5);
  // The first forward ends at 1 s; then come five messages of 2 s, the latency, and the last
  // forward of rank 1; then the five gradients one after another.
  EXPECT_DOUBLE_EQ(s.timeline[1][4].end_s, 1 + 5 * 2 + 0.5 + 1);
  EXPECT_DOUBLE_EQ(s.makespan_s, 12.5 + 5 * 2 + 0.5);
}

TEST(Simulate, SavedBytesFollowTheStagesAndWhatWHolds) {
  Costs c = costs(1, 1, 1, 0);
  c.saved_bytes = {10, 20};
  c.held_for_w = 0.25;
  const Simulation s = run(make("zb_h1", 2, 4), c);
  EXPECT_EQ(s.ranks[0].peak_bytes, 20);  // two activations of 10; W follows B at once
  // One whole activation, and one whose W is pending.
  EXPECT_EQ(s.ranks[1].peak_bytes, 20 + 0.25 * 20);
}

TEST(Simulate, RefusesCostsThatDoNotFit) {
  Costs c = costs(1, 1, 1, 0);
  c.stages.resize(3);
  EXPECT_EQ(simulate(make("1f1b", 4, 8), c).error().kind, ErrorKind::Usage);
  EXPECT_EQ(simulate(make("1f1b", 4, 8), costs(-1, 1, 1, 0)).error().kind, ErrorKind::Usage);
}

}  // namespace
}  // namespace trireme
