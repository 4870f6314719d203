// One rank of a job of processes, started by the scripts in this folder under mpirun, or by
// `ranks_program launch N ...`, which is an agent. The exit codes are those of trireme: 0 done, 1 a
// wrong result, 5 a rank failed, with the first cause on standard error.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>

#include "agent/place_variables.h"
#include "agent/rank_link.h"
#include "agent/rank_processes.h"
#include "comm/collective_check.h"
#include "comm/group_driver.h"
#include "comm/mesh_groups.h"
#include "comm/mpi/mpi_world.h"
#include "comm/tcp/tcp_world.h"

namespace trireme {
namespace {

std::string g_wrong;
constexpr std::string_view kKilledIn = "killed_in_";  // followed by the name of a collective

void expect(const std::string& wrong) {
  if (!wrong.empty() && g_wrong.empty()) g_wrong = wrong;
}

// Tests every collective with every algorithm. Sizes, dtypes, roots, memory and asynchrony are
// random, so that the seeds cover the pairs.
void collectives(World& world) {
  Group& group = world.group();
  std::mt19937 rng(7);
  const int64_t counts[] = {0, 1, 7, 600, 4099, 100003, 700001};
  const DType dtypes[] = {DType::F32, DType::BF16, DType::I32, DType::I64};
  for (int repeat = 0; repeat < 4; ++repeat) {
    for (int c = 0; c <= int(Collective::Barrier); ++c) {
      std::vector<Algorithm> algorithms = algorithms_of(Collective(c), world.size());
      algorithms.insert(algorithms.end(), {Algorithm::Auto, Algorithm::Canonical});
      if (group.shares_memory()) algorithms.push_back(Algorithm::Shared);
      for (Algorithm algorithm : algorithms) {
        const CollectiveCase k{.collective = Collective(c),
                               .algorithm = algorithm,
                               .dtype = dtypes[rng() % 4],
                               .op = ReduceOp(rng() % 4),
                               .count = counts[rng() % 7],
                               .root = int(rng() % unsigned(world.size())),
                               .integers = rng() % 3 != 0,
                               .asynchronous = rng() % 3 == 0,
                               .seed = rng()};
        const bool visible = (rng() + unsigned(repeat * world.rank())) % 2 == 0;
        expect(check_collective(world, group, k, visible));
        CollectiveRun counted(world, group, k, visible);
        const Traffic before = group.traffic();
        counted.fill();
        counted.run();
        Traffic expected = before;
        expected += group.driver().predict(counted.args());
        if (group.traffic().sent_bytes != expected.sent_bytes ||
            group.traffic().received_messages != expected.received_messages) {
          expect("the traffic of " + to_string(k) + " is not the predicted one");
        }
      }
    }
  }
  for (int64_t count : {0, 40, 5000, 300000}) {
    expect(check_collective(
        world, group,
        {.collective = Collective::AllToAll, .count = count, .uneven = true, .seed = 5}));
  }
}

void groups(World& world) {
  const MeshGroups mesh(world, {.tp = world.size() % 2 == 0 ? 2 : 1,
                                .dp = world.size() % 2 == 0 ? world.size() / 2 : world.size()});
  for (MeshAxis axis : {MeshAxis::Tp, MeshAxis::Dp}) {
    int64_t sum = 1 << mesh.position();
    mesh.group(axis).all_reduce({&sum, DType::I64, Shape{1}});
    int64_t expected = 0;
    for (int p : positions_along(mesh.mesh(), axis, mesh.position())) expected += 1 << p;
    if (sum != expected) expect("a mesh group holds other ranks");
  }
  // First crossed transfers of 64 MiB while the rank computes, then messages received by tag, out
  // of order.
  const int next = (world.rank() + 1) % world.size();
  const int previous = (world.rank() + world.size() - 1) % world.size();
  if (world.size() == 1) return;
  Tensor out(DType::F32, Shape{16 << 20});
  Tensor in(DType::F32, Shape{16 << 20});
  out.ref().as<float>()[(16 << 20) - 1] = float(world.rank());
  Work send = world.group().start_send(out, next);
  Work recv = world.group().start_recv(in, previous);
  send.wait();
  recv.wait();
  if (in.ref().as<float>()[(16 << 20) - 1] != float(previous))
    expect("the crossed transfer is wrong");
  float tagged[3] = {1, 2, 3};
  float got[3] = {};
  std::vector<Work> works;
  for (int tag = 0; tag < 3; ++tag) {
    works.push_back(world.group().start_send({&tagged[tag], DType::F32, Shape{1}}, next, tag));
  }
  for (int tag = 2; tag >= 0; --tag) {
    works.push_back(world.group().start_recv({&got[tag], DType::F32, Shape{1}}, previous, tag));
  }
  for (Work& work : works) work.wait();
  for (int tag = 0; tag < 3; ++tag) {
    if (got[tag] != tagged[tag]) expect("a message went to another tag");
  }
}

void endless(World& world) {
  std::vector<float> x(100000, 1.0f);
  const TensorRef ref{x.data(), DType::F32, Shape{100000}};
  for (int i = 0;; ++i) {
    if (world.rank() == 0 && i == 20) {
      std::printf("started\n");
      std::fflush(stdout);
    }
    world.group().all_reduce(ref, ReduceOp::Max, i % 2 == 0 ? Algorithm::Ring : Algorithm::Tree);
  }
}

// The last rank kills itself after a moment, inside a collective.
void killed(World& world) {
  std::thread killer;
  if (world.rank() == world.size() - 1) {
    killer = std::thread([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      kill(getpid(), SIGKILL);
    });
  }
  endless(world);
}

// Ranks, each as a host of its own, make one collective after the other; the last rank kills itself
// in its fifth transfer.
void killed_in(World& world, Collective collective) {
  std::mt19937 rng(7);
  while (true) {
    for (const Algorithm algorithm : algorithms_of(collective, world.size())) {
      const CollectiveCase k{.collective = collective,
                             .algorithm = algorithm,
                             .count = rng() % 2 == 0 ? 100 : 100'000,
                             .asynchronous = rng() % 2 == 0};
      CollectiveRun run(world, world.group(), k);
      run.fill();
      run.run();
    }
  }
}

WorldOptions options_of(const std::string& what, double timeout_s) {
  if (!what.starts_with(kKilledIn)) return {.timeout_s = timeout_s};
  auto transfers = std::make_shared<std::atomic<int>>(0);
  return {.timeout_s = timeout_s, .nodes = 1, .fault_hook = [transfers](int rank) {
            if (rank == 2 && ++*transfers == 5) kill(getpid(), SIGKILL);
          }};
}

void thrown(World& world) {
  std::vector<float> x(1000, 1.0f);
  for (int i = 0; i < 5; ++i) world.group().all_reduce({x.data(), DType::F32, Shape{1000}});
  if (world.rank() == 1) throw DeviceError("the device is gone");
  endless(world);
}

void mismatched(World& world) {
  std::vector<float> x(1000, 1.0f);
  if (world.rank() == 1) {
    world.group().broadcast({x.data(), DType::F32, Shape{1000}}, 0, Algorithm::Naive);
  } else {
    world.group().broadcast({x.data(), DType::F32, Shape{1000}}, 1, Algorithm::Naive);
  }
}

constexpr std::string_view kWatched = "watched_";  // followed by the way in which a rank hangs

void hang(const std::string& how) {
  if (how == "spin") {
    std::atomic<bool> goes_on{true};
    while (goes_on) {
    }
  }
  if (how == "deadlock") {  // two threads take two locks in different orders
    std::mutex first, second;
    const std::lock_guard own(first);
    std::atomic<bool> has_second{false};
    std::thread other([&] {
      const std::lock_guard theirs(second);
      has_second = true;
      const std::lock_guard waits(first);
    });
    while (!has_second) std::this_thread::yield();
    const std::lock_guard waits(second);
  }
  if (how == "blocked") {  // a read that nobody answers
    int ends[2];
    char byte = 0;
    if (pipe(ends) == 0) (void)!read(ends[0], &byte, 1);
  }
  if (how == "stopped") kill(getpid(), SIGSTOP);
}

// The last rank hangs, and the deadline of the others names it.
void silent(World& world) {
  std::vector<float> x(1000, 1.0f);
  for (int i = 0; i < 5; ++i) world.group().all_reduce({x.data(), DType::F32, Shape{1000}});
  if (world.rank() == world.size() - 1) {
    while (!world.aborted()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return;
  }
  endless(world);
}

// Steps that show their progress, as a training run does. After forty of them, the last rank but
// one hangs in the way that is named, or computes twice as long. 2000 steps end well.
void watched(World& world, const std::string& how) {
  constexpr int64_t kComputeNs = 2'000'000;
  std::vector<float> x(1000, 1.0f);
  const bool is_culprit = world.rank() == std::max(0, world.size() - 2);
  ProgressPage& page = world.group().page();
  page.begin_epoch(1, world.rank(), steady_now_ns());
  for (int64_t step = 1; step <= 2000; ++step) {
    const int64_t begin_ns = steady_now_ns(), waited_ns = page.waited_ns();
    page.begin_step(step, begin_ns);
    if (is_culprit && step > 40) hang(how);
    const bool is_slow = is_culprit && how == "slow";
    const int64_t until_ns = begin_ns + (is_slow ? 2 : 1) * kComputeNs;
    while (steady_now_ns() < until_ns) {
    }
    world.group().all_reduce({x.data(), DType::F32, Shape{1000}}, ReduceOp::Max);
    const int64_t took_ns = steady_now_ns() - begin_ns;
    page.end_step(took_ns, took_ns - (page.waited_ns() - waited_ns), 0);
  }
}

// Compares a flat ring with the hierarchical algorithm over 4 MiB.
void compare(World& world) {
  std::vector<float> x(1 << 20, 1.0f);
  const TensorRef ref{x.data(), DType::F32, Shape{1 << 20}};
  for (Algorithm algorithm : {Algorithm::Ring, Algorithm::Hierarchical}) {
    world.group().all_reduce(ref, ReduceOp::Max, algorithm);
    world.group().barrier();
    const int64_t begin = steady_now_ns();
    for (int i = 0; i < 3; ++i) world.group().all_reduce(ref, ReduceOp::Max, algorithm);
    const double seconds = double(steady_now_ns() - begin) * 1e-9 / 3;
    if (world.rank() == 0) fmt::print("{} {:.6f}\n", name_of(algorithm), seconds);
  }
  if (world.rank() == 0) {
    int hosts = 0;
    for (int r = 0; r < world.size(); ++r) hosts += world.node_of()[size_t(r)] == r;
    fmt::print("hosts {}\n", hosts);
  }
}

double median_s(World& world, const std::function<void()>& call) {
  std::vector<double> seconds;
  for (int repeat = 0; repeat < 11; ++repeat) {
    world.group().barrier();
    const int64_t begin = steady_now_ns();
    call();
    seconds.push_back(double(steady_now_ns() - begin) * 1e-9);
  }
  std::nth_element(seconds.begin(), seconds.begin() + 5, seconds.end());
  return seconds[5];
}

// Times, on rank 0: an all-reduce as Auto chooses it and over the ring; a message to rank 1 and
// back; and the bytes per second of a message to rank 1 alone.
void speed(World& world) {
  Group& group = world.group();
  for (const int64_t bytes : {int64_t{8}, int64_t{64} << 10, int64_t{1} << 20, int64_t{64} << 20}) {
    std::vector<float> x(size_t(bytes) / 4, 1.0f);
    const TensorRef ref{x.data(), DType::F32, Shape{bytes / 4}};
    const double auto_s = median_s(world, [&] { group.all_reduce(ref, ReduceOp::Max); });
    const double ring_s =
        median_s(world, [&] { group.all_reduce(ref, ReduceOp::Max, Algorithm::Ring); });
    const double there_and_back_s = median_s(world, [&] {
      if (world.rank() == 0) {
        group.send(ref, 1);
        group.recv(ref, 1);
      } else if (world.rank() == 1) {
        group.recv(ref, 0);
        group.send(ref, 0);
      }
    });
    int64_t word = 0;
    const TensorRef taken{&word, DType::I64, Shape{1}};
    const double there_s = median_s(world, [&] {
      for (int i = 0; i < 4; ++i) {
        if (world.rank() == 0) group.send(ref, 1);
        if (world.rank() == 1) group.recv(ref, 0);
      }
      if (world.rank() == 0) group.recv(taken, 1);
      if (world.rank() == 1) group.send(taken, 0);
    });
    if (world.rank() != 0) continue;
    fmt::print(
        "{:>9} bytes: all_reduce {:10.1f} us, ring {:10.1f} us, there and back {:10.1f} us, "
        "there {:6.3f} GB/s\n",
        bytes, auto_s * 1e6, ring_s * 1e6, there_and_back_s * 1e6,
        4 * double(bytes) / there_s * 1e-9);
    std::fflush(stdout);
  }
}

// `report` is the start of a file name, completed by the rank, for tests in which standard error is
// cut off too.
int run(const std::string& what, double timeout_s, const std::string& report) {
  int rank = -1;
  // The launcher sends SIGTERM after a rank has died. The abort is already known or will be soon,
  // so it is ignored.
  std::signal(SIGTERM, [](int) {});
  std::signal(SIGPIPE, SIG_IGN);
  const auto body = [&](World& world) {
    rank = world.rank();
    if (what == "collectives") collectives(world);
    if (what == "groups") groups(world);
    if (what == "endless") endless(world);
    if (what == "killed") killed(world);
    if (what.starts_with(kKilledIn)) {
      const auto collective = parse_collective(what.substr(kKilledIn.size()));
      killed_in(world, collective.value());
    }
    if (what == "thrown") thrown(world);
    if (what == "mismatched") mismatched(world);
    if (what == "silent") silent(world);
    if (what.starts_with(kWatched)) watched(world, what.substr(kWatched.size()));
    if (what == "compare") compare(world);
    if (what == "speed") speed(world);
  };
  const auto place = place_in([](const std::string& name) {
    const char* const value = std::getenv(name.c_str());
    return std::string(value == nullptr ? "" : value);
  });
  try {
    WorldOptions options = options_of(what, timeout_s);
    std::optional<RankLink> link;
    if (what.starts_with(kWatched)) {
      const char* const text = std::getenv(kLinkVariable);
      Result<RankLink> opened = RankLink::open(*link_in(text == nullptr ? "" : text).value());
      if (opened.ok()) options.page = &link.emplace(std::move(*opened)).progress();
    }
    const Status status = !place.ok()          ? Status(place.error())
                          : place->has_value() ? run_tcp_rank(**place, options, body)
                                               : run_mpi_rank(options, body);
    if (!status.ok()) {
      fmt::print(stderr, "{}\n", status.error().message);
      return 2;
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "first cause: {}\n", error.what());
    std::fflush(stderr);
    if (!report.empty()) {
      std::ofstream(fmt::format("{}.{}", report, rank)) << "first cause: " << error.what() << "\n";
    }
    return 5;
  }
  if (g_wrong.empty()) return 0;
  fmt::print(stderr, "{}\n", g_wrong);
  return 1;
}

void print_line(const std::string& text) { fmt::print(stderr, "{}\n", text); }

// launch N WHAT ...: starts N ranks on this host.
int launch(int argc, char** argv) {
  RankProcesses processes{.command = {argv[0]},
                          .ranks = std::atoi(argv[2]),
                          .start_timeout_s = 20.0,
                          .log = print_line,
                          .host = "here"};
  processes.command.insert(processes.command.end(), argv + 3, argv + argc);
  const Result<RanksEnd> end = run_rank_processes(processes);
  if (!end.ok()) {
    print_line(end.error().message);
    return 5;
  }
  if (end->first_failed >= 0) {
    fmt::print(stderr, "{}rank {} failed first: it {}\n", end->error_output, end->first_failed,
               end->why);
  }
  return end->exit_code;
}

// rendezvous ADDRESS N SECRET: brings N ranks together that are started by hand, on any host.
int meet(char** argv) {
  Result<Rendezvous> rendezvous = Rendezvous::open(argv[2], argv[4], print_line);
  if (!rendezvous.ok()) {
    print_line(rendezvous.error().message);
    return 5;
  }
  const std::atomic<bool> is_cancelled{false};
  const Status gathered =
      rendezvous->gather(1, std::atoi(argv[3]), Deadline::after(20), is_cancelled);
  if (!gathered.ok()) print_line(gathered.error().message);
  return gathered.ok() ? 0 : 5;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string what = argv[1];
  if (what == "launch" && argc > 3) return trireme::launch(argc, argv);
  if (what == "rendezvous" && argc == 5) return trireme::meet(argv);
  return trireme::run(argv[1], argc > 2 ? std::atof(argv[2]) : 20.0, argc > 3 ? argv[3] : "");
}
