// Times making, simulating and searching schedules far larger than any that are run. One JSON line
// per row.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>

#include "program/make_schedule.h"
#include "sim/search_schedule.h"
#include "sim/simulate.h"

namespace trireme {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void bench_simulate(const char* kind, int num_ranks, int num_microbatches) {
  const auto start = std::chrono::steady_clock::now();
  const Schedule schedule = make_schedule(kind, {num_ranks, num_microbatches}).value();
  const double make_s = seconds_since(start);
  size_t actions = 0;
  for (const Program& program : schedule.programs) actions += program.size();
  const auto made = std::chrono::steady_clock::now();
  const Simulation simulation = simulate(schedule, {.link = {.latency_s = 0.1}}).value();
  fmt::print(R"({{"bench":"simulate","kind":"{}","stages":{},"microbatches":{},"actions":{},)"
             R"("make_s":{:.3f},"simulate_s":{:.3f},"makespan":{:.6g}}})"
             "\n",
             kind, num_ranks, num_microbatches, actions, make_s, seconds_since(made),
             simulation.makespan_s);
}

void bench_search(int num_ranks, int num_microbatches) {
  const Costs costs{.stages = {{10.4, 10.2, 7.7}}, .link = {.latency_s = 0.4}};
  const auto start = std::chrono::steady_clock::now();
  const Schedule schedule =
      search_schedule({num_ranks, num_microbatches}, costs, {.max_live = 2.0 * num_ranks}).value();
  const double search_s = seconds_since(start);
  fmt::print(R"({{"bench":"search","stages":{},"microbatches":{},"search_s":{:.3f},)"
             R"("bubble_of_span":{:.4f}}})"
             "\n",
             num_ranks, num_microbatches, search_s,
             simulate(schedule, costs).value().bubbles.of_span);
}

}  // namespace
}  // namespace trireme

int main() {
  for (const char* kind : {"1f1b", "zb_h1", "zb_v"}) trireme::bench_simulate(kind, 1024, 4096);
  for (const auto& [p, m] : {std::pair{8, 64}, {32, 128}, {32, 256}}) trireme::bench_search(p, m);
}
