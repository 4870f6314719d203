#include "cli/bench_comm_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <vector>

#include "base/json_text.h"
#include "base/order_statistics.h"
#include "base/units.h"
#include "calibrate/measure_collective.h"
#include "cli/bench_comm_table.h"
#include "comm/collective_check.h"
#include "comm/group_driver.h"
#include "comm/mpi/mpi_world.h"
#include "comm/reduce.h"
#include "comm/world.h"
#include "device/core_binding.h"

namespace trireme {
namespace {

Result<DType> parse_dtype(const std::string& name) {
  for (DType dtype : {DType::F32, DType::BF16, DType::I32, DType::I64}) {
    if (name_of(dtype) == name) return dtype;
  }
  return Error{ErrorKind::Usage,
               fmt::format("--dtype {} is not one of fp32 bf16 int32 int64", name)};
}

Result<CollectiveCase> parse_case(const BenchCommOptions& o) {
  TRIREME_TRY(collective, parse_collective(o.op));
  TRIREME_TRY(algorithm, parse_algorithm(o.algorithm));
  TRIREME_TRY(op, parse_reduce_op(o.reduction));
  TRIREME_TRY(dtype, parse_dtype(o.dtype));
  if (collective == Collective::Send || collective == Collective::Recv) {
    return Error{ErrorKind::Usage, "--op " + o.op + " is not a collective"};
  }
  const int64_t elements = o.elements.value_or(BenchCommOptions::kUsualElements);
  if (elements < 0) {
    return Error{ErrorKind::Usage, fmt::format("--elements {} must not be negative", elements)};
  }
  return CollectiveCase{.collective = collective,
                        .algorithm = algorithm,
                        .dtype = dtype,
                        .op = op,
                        .count = elements,
                        .root = o.root};
}

// Checks everything that can be checked before a rank runs.
Status check_case(const CollectiveCase& c, int ranks) {
  if (ranks < 1)
    return Error{ErrorKind::Usage, fmt::format("--ranks {} must be at least 1", ranks)};
  if (c.root < 0 || c.root >= ranks) {
    return Error{ErrorKind::Usage, fmt::format("--root {} is not one of {} ranks", c.root, ranks)};
  }
  const bool special = c.algorithm == Algorithm::Auto || c.algorithm == Algorithm::Canonical ||
                       c.algorithm == Algorithm::Shared || c.algorithm == Algorithm::Native;
  if (special) return Done{};
  const Result<CommPlan> plan = plan_collective({.collective = c.collective,
                                                 .algorithm = c.algorithm,
                                                 .size = ranks,
                                                 .root = c.root,
                                                 .count = c.count});
  if (!plan.ok()) return plan.error();
  return Done{};
}

// Copies `bytes` from one buffer to another on all ranks at once. This is the limit for an
// all-reduce, in which a rank also reads and writes that many bytes.
double time_copies(World& world, int64_t bytes) {
  const std::unique_ptr<SharedMemory> from = world.allocate_shared(bytes);
  const std::unique_ptr<SharedMemory> to = world.allocate_shared(bytes);
  std::memset(from->data(), 0, size_t(bytes));
  std::memset(to->data(), 0, size_t(bytes));
  std::vector<int64_t> mine;
  const int batch = bytes > (1 << 21) ? 1 : 10;
  for (int repeat = 0; repeat < 9; ++repeat) {
    world.group().barrier();
    const int64_t begin = steady_now_ns();
    for (int i = 0; i < batch; ++i) std::memcpy(to->data(), from->data(), size_t(bytes));
    mine.push_back((steady_now_ns() - begin) / batch);
  }
  world.group().all_reduce({mine.data(), DType::I64, Shape{9}}, ReduceOp::Max);
  return upper_median({mine.begin(), mine.end()}) * 1e-9;
}

struct Report {
  Status status = Done{};
  std::string text;  // only on rank 0
};

void report_one(World& world, const BenchCommOptions& o, const CollectiveCase& c, Report& report) {
  Group& group = world.group();
  CollectiveRun once(world, group, c, !o.private_memory);
  int rounds = 0;
  std::vector<int64_t> moved(2, 0);
  if (c.algorithm != Algorithm::Native) {
    rounds = group.driver().rounds(once.args());
    once.fill();
    const Traffic before = group.traffic(c.collective);
    once.run();
    const Traffic after = group.traffic(c.collective);
    moved = {after.sent_bytes - before.sent_bytes, after.received_bytes - before.received_bytes};
  }
  std::vector<int64_t> all(size_t(2 * group.size()));
  group.all_gather({moved.data(), DType::I64, Shape{2}},
                   {all.data(), DType::I64, Shape{int64_t(all.size())}});
  const CollectiveSample sample = measure_collective(world, c, !o.private_memory);
  if (world.rank() != 0) return;
  nlohmann::ordered_json json = {{"op", name_of(c.collective)},
                                 {"algorithm", name_of(c.algorithm)},
                                 {"ranks", group.size()},
                                 {"elements", c.count},
                                 {"dtype", name_of(c.dtype)},
                                 {"backend", o.backend},
                                 {"rounds", rounds}};
  nlohmann::json sent = nlohmann::json::array();
  nlohmann::json received = nlohmann::json::array();
  for (int r = 0; r < group.size(); ++r) {
    sent.push_back(all[size_t(2 * r)]);
    received.push_back(all[size_t(2 * r + 1)]);
  }
  json["sent_bytes"] = sent;
  json["received_bytes"] = received;
  json["seconds_median"] = sample.seconds_median;
  json["correct"] = sample.correct;
  if (c.algorithm == Algorithm::Auto || c.algorithm == Algorithm::Canonical) {
    json["chosen"] = name_of(group.driver().resolve(once.args()));
  }
  if (o.json) {
    report.text = json_text(json) + "\n";
  } else {
    const double bytes = double(c.count * size_of(c.dtype));
    report.text = fmt::format(
        "{} {} of {} {} over {} ranks ({}): {} median, {:.3g} GB/s, {} round{}, {}\n"
        "  sent by rank: {}\n",
        name_of(c.collective), name_of(c.algorithm), c.count, name_of(c.dtype), group.size(),
        o.backend, format_seconds(sample.seconds_median), bytes / sample.seconds_median * 1e-9,
        rounds, rounds == 1 ? "" : "s", sample.correct ? "correct" : "WRONG", json_text(sent));
  }
  if (!sample.correct) report.status = Error{ErrorKind::Runtime, "wrong result: " + sample.wrong};
}

// Prints one line per size: the algorithms side by side, and the limit of copying.
void report_comparison(World& world, const BenchCommOptions& o, CollectiveCase c, Report& report) {
  std::string text;
  if (!o.json) {
    text = fmt::format("{:>10} {:>12} {:>12} {:>12} {:>12} {:>12} {:>8}\n", "bytes", "shared us",
                       "private us", "ring us", "native us", "copy us", "of copy");
  }
  for (int64_t bytes :
       {int64_t{8}, int64_t{1024}, int64_t{65536}, int64_t{1} << 20, int64_t{64} << 20}) {
    c.count = bytes / size_of(c.dtype);
    const auto seconds = [&](Algorithm algorithm, bool visible) {
      c.algorithm = algorithm;
      const CollectiveSample sample = measure_collective(world, c, visible);
      if (!sample.correct && world.rank() == 0) {
        report.status = Error{ErrorKind::Runtime, "wrong result: " + sample.wrong};
      }
      return sample.seconds_median;
    };
    const bool shares = world.group().shares_memory();
    const bool native = o.backend == "mpi" && c.dtype != DType::BF16;
    const double shared_s = shares ? seconds(Algorithm::Shared, true) : 0;
    const double private_s = shares ? seconds(Algorithm::Shared, false) : 0;
    const double ring_s = seconds(Algorithm::Ring, true);
    const double native_s = native ? seconds(Algorithm::Native, true) : 0;
    const double copy_s = time_copies(world, bytes);
    if (o.json) {
      text += json_text(nlohmann::ordered_json({{"op", name_of(c.collective)},
                                                {"ranks", world.size()},
                                                {"backend", o.backend},
                                                {"bytes", bytes},
                                                {"shared_s", shared_s},
                                                {"shared_private_s", private_s},
                                                {"ring_s", ring_s},
                                                {"native_s", native_s},
                                                {"copy_s", copy_s}})) +
              "\n";
      continue;
    }
    text += fmt::format("{:>10} {:>12.2f} {:>12.2f} {:>12.2f} {:>12.2f} {:>12.2f} {:>7.0f}%\n",
                        bytes, shared_s * 1e6, private_s * 1e6, ring_s * 1e6, native_s * 1e6,
                        copy_s * 1e6, shares ? 100 * copy_s / shared_s : 0.0);
  }
  if (world.rank() == 0) report.text = text;
}

}  // namespace

Status run_bench_comm(const BenchCommOptions& o, std::ostream& out) {
  TRIREME_TRY(c, parse_case(o));
  const bool mpi = o.backend == "mpi";
  if (!mpi && o.backend != "local") {
    return Error{ErrorKind::Usage, "--backend " + o.backend + " is not local or mpi"};
  }
  if (o.table) return print_cost_table(o, c, out);
  if (!mpi && c.algorithm == Algorithm::Native) {
    return Error{ErrorKind::Usage, "--algorithm native needs --backend mpi"};
  }
  if (!mpi) TRIREME_TRY_DONE(check_case(c, o.ranks));
  Report report;
  const auto body = [&](World& world) {
    const CoreBinding binding(world.rank(), mpi ? 1 : world.size(), 1);
    if (mpi) {
      const Status fits = check_case(c, world.size());
      if (!fits.ok()) {
        if (world.rank() == 0) report.status = fits;
        return;
      }
    }
    if (o.compare) {
      report_comparison(world, o, c, report);
    } else {
      report_one(world, o, c, report);
    }
  };
  const WorldOptions options{.timeout_s = o.timeout_s, .nodes = o.nodes()};
  try {
    if (mpi) {
      TRIREME_TRY_DONE(run_mpi_rank(options, body));
    } else {
      run_ranks(o.ranks, options, body);
    }
  } catch (const CommError& error) {
    return Error{ErrorKind::Runtime, error.what()};
  }
  out << report.text;
  return report.status;
}

}  // namespace trireme
