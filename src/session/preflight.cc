#include "session/preflight.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/failure.h"
#include "base/file.h"
#include "base/json_text.h"
#include "comm/gather_text.h"
#include "device/core_binding.h"
#include "device/host.h"
#include "kernels/ceilings.h"
#include "kernels/own_stream.h"
#include "session/run_world.h"
#include "train/kernel_choice.h"
#include "watch/progress_page.h"

namespace trireme {
namespace {

constexpr double kWindowS = 0.2;  // length of a measurement
constexpr int kWindows = 2;       // measurements; the better one counts, as noise only slows down
constexpr int64_t kDiskBytes = int64_t{8} << 20;
constexpr int64_t kLinkElements = int64_t{1} << 18;  // of 4 bytes
constexpr int kLinkRepeats = 4;
constexpr int kLatencyRepeats = 20;
constexpr int kMostRounds = 64;  // a rank measures its links to at most so many others

// Returns the ranks whose links are measured: the first rank of every host, or all ranks if there
// is one host.
std::vector<int> link_ends(const std::vector<int>& node_of) {
  std::vector<int> first, all;
  std::vector<int> seen;
  for (int rank = 0; rank < int(node_of.size()); ++rank) {
    all.push_back(rank);
    if (std::find(seen.begin(), seen.end(), node_of[size_t(rank)]) != seen.end()) continue;
    seen.push_back(node_of[size_t(rank)]);
    first.push_back(rank);
  }
  return first.size() > 1 ? first : all;
}

// Returns the partner of `player` in a round of a round-robin tournament. `players` is even. In
// `players` - 1 rounds each pair meets once, and in a round each player has one partner.
int partner_of(int player, int round, int players) {
  const int turning = players - 1;
  const auto other = [&](int of) { return ((round - of) % turning + turning) % turning; };
  if (player < turning) return other(player) == player ? turning : other(player);
  for (int candidate = 0; candidate < turning; ++candidate) {
    if (other(candidate) == candidate) return candidate;
  }
  return -1;
}

// Returns half the time of the fastest of several messages there and back.
double message_s(Group& group, int peer, TensorRef x, int repeats) {
  double fastest_s = 1e9;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const int64_t begin_ns = monotonic_ns();
    if (group.rank() < peer) {
      group.send(x, peer);
      group.recv(x, peer);
    } else {
      group.recv(x, peer);
      group.send(x, peer);
    }
    fastest_s = std::min(fastest_s, 0.5 * seconds_since(begin_ns));
  }
  return fastest_s;
}

// Measures the links of all pairs. Returns the links to ranks with a higher number than this one.
std::vector<PreflightLink> measure_links_of_pairs(World& world) {
  Group& group = world.group();
  const std::vector<int> ends = link_ends(world.node_of());
  const auto own = std::find(ends.begin(), ends.end(), world.rank());
  const int players = int(ends.size() + ends.size() % 2);
  std::vector<float> x(size_t(kLinkElements), 1.0f);
  std::vector<PreflightLink> links;
  for (int round = 0; round < std::min(players - 1, kMostRounds); ++round) {
    group.barrier();
    if (own == ends.end()) continue;
    const int partner = partner_of(int(own - ends.begin()), round, players);
    if (partner >= int(ends.size())) continue;  // no partner: the number of ranks is odd
    const int peer = ends[size_t(partner)];
    const double latency_s =
        message_s(group, peer, {x.data(), DType::F32, Shape{2}}, kLatencyRepeats);
    const double long_s =
        message_s(group, peer, {x.data(), DType::F32, Shape{kLinkElements}}, kLinkRepeats);
    if (world.rank() < peer) {
      links.push_back({world.rank(), peer, double(kLinkElements * 4) / long_s, latency_s});
    }
  }
  group.barrier();
  return links;
}

Result<double> measure_disk(const std::string& folder, int rank, Progress& progress) {
  const std::string path = fmt::format("{}/preflight-{}", folder, rank);
  const std::vector<std::byte> bytes(size_t(kDiskBytes), std::byte{1});
  const int64_t begin_ns = monotonic_ns();
  TRIREME_TRY(file, AtomicFile::create(path, &progress));
  TRIREME_TRY_DONE(file.write(bytes));
  TRIREME_TRY_DONE(file.commit());
  const double seconds = seconds_since(begin_ns);
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  return double(kDiskBytes) / seconds;
}

PreflightRank measure_place(World& world, const RunPlan& plan, const KernelChoice& choice,
                            const std::string& folder) {
  PreflightRank own{.rank = world.rank(), .host = host_name()};
  OwnStream stream(plan.num_threads);
  SustainedLoops loops(stream, choice.isa);
  for (int window = 0; window < kWindows; ++window) {
    world.group().barrier();
    const SustainedRates rates = loops.measure(kWindowS);
    own.flops_per_s = std::max(own.flops_per_s, rates.flops_per_s);
    own.memory_bytes_per_s = std::max(own.memory_bytes_per_s, rates.read_bytes_per_s);
  }
  world.group().monitored_barrier();
  const Result<double> disk = measure_disk(folder, world.rank(), world.group().progress());
  if (!disk.ok()) throw Failure(disk.error());
  own.disk_bytes_per_s = *disk;
  world.group().monitored_barrier();
  return own;
}

// Returns a rank's part of the report as text, which add_part() reads.
std::string text_of(const PreflightRank& own, const std::vector<PreflightLink>& links) {
  nlohmann::json json = {own.rank,
                         own.host,
                         own.flops_per_s,
                         own.memory_bytes_per_s,
                         own.disk_bytes_per_s,
                         nlohmann::json::array()};
  for (const PreflightLink& link : links) {
    json.back().push_back({link.a, link.b, link.bytes_per_s, link.latency_s});
  }
  return lenient_json_text(json);
}

void add_part(const std::string& text, PreflightReport& report) {
  const nlohmann::json json = parse_json(text);
  report.ranks.push_back({json[0], json[1], json[2], json[3], json[4]});
  for (const auto& link : json[5]) {
    report.links.push_back({link[0], link[1], link[2], link[3]});
  }
}

}  // namespace

Result<PreflightReport> run_preflight(const SessionOptions& options) {
  const int64_t begin_ns = monotonic_ns();
  TRIREME_TRY(choice, choose_kernels(options.config.run.isa));
  TRIREME_TRY(plan, plan_run(options.config, options.host, options.open_input));
  std::error_code error;
  std::filesystem::create_directories(options.out_dir, error);
  PreflightReport report;
  const auto rank = [&](World& world) {
    if (options.link != nullptr) options.link->tell_joined(options.place->epoch);
    world.group().page().begin_epoch(options.place ? options.place->epoch : 1, world.rank(),
                                     steady_now_ns());
    const bool is_process = plan.config.run.backend != BackendChoice::Local;
    const CoreBinding binding(world.rank(), is_process ? 1 : world.size(), plan.num_threads);
    const PreflightRank own = measure_place(world, plan, choice, options.out_dir);
    const std::vector<PreflightLink> links = measure_links_of_pairs(world);
    const std::vector<std::string> parts = gather_text(world.group(), text_of(own, links));
    if (world.rank() != 0) return;
    for (const std::string& part : parts) add_part(part, report);
    report.seconds = seconds_since(begin_ns);
  };
  try {
    TRIREME_TRY_DONE(run_world(plan, options, rank));
  } catch (const RankError& failure) {
    return failure.error();
  }
  // Removes the folder if it is empty. A launcher removes its folder itself.
  if (options.link == nullptr && options.is_first_process) {
    std::filesystem::remove(options.out_dir, error);
  }
  return report;
}

}  // namespace trireme
