#include "cli/bench_comm_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "base/json_text.h"
#include "calibrate/measure_collective.h"
#include "collectives/closed_form.h"
#include "comm/calibrate_comm.h"
#include "comm/group_driver.h"
#include "comm/world.h"
#include "device/core_binding.h"

namespace trireme {
namespace {

constexpr int64_t kSizes[] = {1 << 10, 1 << 16, 1 << 20, 1 << 24};  // bytes

constexpr std::string_view kWithoutRow =
    "\nauto and canonical have no rows: each uses one of the algorithms above. Both use shared if\n"
    "all ranks can access each other's memory. Otherwise auto uses the one with the lowest price,\n"
    "and canonical the cheapest that adds in the order of one binary tree. To measure native, the\n"
    "collective of the MPI library, run `trireme bench comm --algorithm native --backend mpi`.\n";

// Returns the vector lengths that the table lists.
std::vector<int64_t> counts_of(const BenchCommOptions& o, DType dtype) {
  if (o.elements) return {*o.elements};
  std::vector<int64_t> counts;
  for (const int64_t bytes : kSizes) counts.push_back(bytes / size_of(dtype));
  return counts;
}

// One line of the table.
struct CostRow {
  int ranks = 0;
  Algorithm algorithm = Algorithm::Ring;
  int64_t bytes = 0;  // of the full vector
  std::optional<ClosedForm> form;
  int64_t sent_bytes = 0;  // measured, of all ranks
  int rounds = 0;
  double latency_s = 0.0, bandwidth_s = 0.0, measured_s = 0.0;
  std::optional<double> priced_s;  // of algorithms that send messages
};

// Returns the algorithms that have a row. auto and canonical only choose one of them, and native
// needs MPI.
std::vector<Algorithm> rows_of(World& world, Collective collective) {
  std::vector<Algorithm> algorithms = algorithms_of(collective, world.size());
  if (world.group().shares_memory()) algorithms.push_back(Algorithm::Shared);
  return algorithms;
}

// In one meeting `shared` moves what naive sends; in two, ranks reduce parts as in a ring.
std::optional<ClosedForm> form_of(const CollectiveCase& c, int num_ranks, int rounds) {
  Algorithm alike = c.algorithm;
  if (alike == Algorithm::Shared) {
    const bool reduces_parts = rounds > 1 && is_reduction(c.collective);
    alike = reduces_parts ? Algorithm::Ring : Algorithm::Naive;
  }
  return closed_form(c.collective, alike, num_ranks, c.count);
}

// Bytes that all ranks send in one call, those of the busiest one, and the rounds of the call.
struct CountedCall {
  int64_t all = 0, most = 0;
  int rounds = 0;
};
CountedCall count_call(World& world, const CollectiveCase& c) {
  Group& group = world.group();
  CollectiveRun run(world, group, c, true);
  run.fill();
  const Traffic before = group.traffic(c.collective);
  run.run();
  const int64_t own = group.traffic(c.collective).sent_bytes - before.sent_bytes;
  CountedCall counted{own, own, group.driver().rounds(run.args())};
  group.all_reduce({&counted.all, DType::I64, Shape{1}});
  group.all_reduce({&counted.most, DType::I64, Shape{1}}, ReduceOp::Max);
  return counted;
}

CostRow row_of(World& world, const CollectiveCase& c, const CommCost& cost, Status& status) {
  const int64_t element_bytes = size_of(c.dtype);
  const PlanRequest request{.collective = c.collective,
                            .algorithm = c.algorithm,
                            .size = world.size(),
                            .root = c.root,
                            .count = c.count};
  CostRow row{.ranks = world.size(), .algorithm = c.algorithm, .bytes = c.count * element_bytes};
  const CountedCall counted = count_call(world, c);
  row.form = form_of(c, world.size(), counted.rounds);
  row.sent_bytes = counted.all;
  row.rounds = counted.rounds;
  row.latency_s = row.rounds * cost.inside.alpha_s;
  row.bandwidth_s = double(counted.most) * cost.inside.beta_s_per_byte;
  if (c.algorithm != Algorithm::Shared) {
    row.priced_s = predict_seconds(request, element_bytes, cost);
  }
  const CollectiveSample sample = measure_collective(world, c, true);
  row.measured_s = sample.seconds_median;
  if (!sample.correct) status = Error{ErrorKind::Runtime, "wrong result: " + sample.wrong};
  return row;
}

std::string heading() {
  return fmt::format("{:>5} {:<16} {:>10} {:>14} {:>12} {:>12} {:>6} {:>11} {:>12} {:>10} {:>11}\n",
                     "ranks", "algorithm", "bytes", "formula", "= bytes", "sent bytes", "rounds",
                     "latency us", "bandwidth us", "priced us", "measured us");
}

std::string text_of(const CostRow& row, int64_t element_bytes) {
  const std::string form_bytes =
      row.form ? std::to_string(row.form->elements * element_bytes) : "-";
  return fmt::format(
      "{:>5} {:<16} {:>10} {:>14} {:>12} {:>12} {:>6} {:>11.2f} {:>12.2f} {:>10} {:>11.2f}\n",
      row.ranks, name_of(row.algorithm), row.bytes, row.form ? row.form->text : "-", form_bytes,
      row.sent_bytes, row.rounds, row.latency_s * 1e6, row.bandwidth_s * 1e6,
      row.priced_s ? fmt::format("{:.2f}", *row.priced_s * 1e6) : "-", row.measured_s * 1e6);
}

std::string json_of(const CostRow& row, const CollectiveCase& c) {
  nlohmann::ordered_json json = {
      {"op", name_of(c.collective)},         {"ranks", row.ranks},
      {"algorithm", name_of(row.algorithm)}, {"bytes", row.bytes},
      {"sent_bytes", row.sent_bytes},        {"rounds", row.rounds},
      {"latency_s", row.latency_s},          {"bandwidth_s", row.bandwidth_s},
      {"seconds_median", row.measured_s}};
  if (row.priced_s) json["priced_s"] = *row.priced_s;
  if (row.form) {
    json["formula"] = row.form->text;
    json["formula_bytes"] = row.form->elements * size_of(c.dtype);
  }
  return json_text(json) + "\n";
}

}  // namespace

Status print_cost_table(const BenchCommOptions& o, const CollectiveCase& c, std::ostream& out) {
  if (o.backend != "local") {
    return usage("--table runs worlds of several sizes, and --backend " + o.backend +
                 " has one: leave out --backend");
  }
  if (o.ranks < 2) return usage(fmt::format("--ranks {}: --table begins with 2 ranks", o.ranks));
  const WorldOptions options{.timeout_s = o.timeout_s, .nodes = o.nodes()};
  Status status = Done{};
  const std::vector<int64_t> counts = counts_of(o, c.dtype);
  if (!o.json) out << heading() << std::flush;
  try {
    for (int ranks = 2; ranks <= o.ranks; ++ranks) {
      run_ranks(ranks, options, [&](World& world) {
        const CoreBinding binding(world.rank(), ranks, 1);
        const CommCost cost = calibrate_comm(world);
        for (const Algorithm algorithm : rows_of(world, c.collective)) {
          for (const int64_t count : counts) {
            CollectiveCase one = c;
            one.algorithm = algorithm;
            one.count = count;
            Status of_rank = Done{};
            const CostRow row = row_of(world, one, cost, of_rank);
            if (world.rank() != 0) continue;
            if (!of_rank.ok()) status = of_rank;
            // A row of large vectors takes seconds, so each row is printed at once.
            out << (o.json ? json_of(row, one) : text_of(row, size_of(c.dtype))) << std::flush;
          }
        }
      });
    }
  } catch (const CommError& error) {
    return Error{ErrorKind::Runtime, error.what()};
  }
  if (!o.json) out << kWithoutRow;
  return status;
}

}  // namespace trireme
