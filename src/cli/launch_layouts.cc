#include "cli/launch_layouts.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "config/cluster_file.h"
#include "session/add_data_facts.h"

namespace trireme {
namespace {

// Ranks that have survived wait for so long and for one more number of ranks to be tried.
constexpr std::chrono::seconds kSearchTime(5);

// What rank 0 has measured; nullopt if it has not yet.
std::optional<MeasuredMachine> measured_in(const JobPage& page) {
  MeasuredMachine measured;
  if (page.measured_bytes != int(sizeof measured)) return std::nullopt;
  std::memcpy(&measured, page.measured.data(), sizeof measured);
  return measured;
}

}  // namespace

LayoutChange change_of(const std::string& name) {
  return name == "any" ? LayoutChange::Any : name == "dp" ? LayoutChange::Dp : LayoutChange::None;
}

LaunchLayouts::LaunchLayouts(RunConfig config, HostFacts host, int ranks_per_host,
                             LayoutChange change, OpenInput open_input)
    : config_(std::move(config)),
      host_(std::move(host)),
      ranks_per_host_(ranks_per_host),
      change_(change),
      open_input_(std::move(open_input)),
      layout_(epoch_layout_of(config_)) {}

std::optional<FittingLayout> LaunchLayouts::fitting(int most_ranks, const JobPage& page) {
  if (most_ranks >= layout_.num_ranks()) return FittingLayout{layout_, ""};
  auto& found = found_[most_ranks];
  if (!found.valid()) {
    found = std::async(std::launch::async, [this, most_ranks, measured = measured_in(page)] {
              return find(most_ranks, measured);
            }).share();
  }
  if (found.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return std::nullopt;
  return found.get();
}

double LaunchLayouts::cores_of_rank(int num_ranks) const {
  const int on_host = ranks_per_host_ > 0 ? std::min(num_ranks, ranks_per_host_) : num_ranks;
  const int threads = config_.run.threads_per_rank > 0 ? config_.run.threads_per_rank
                                                       : std::max(1, host_.num_cores / on_host);
  return std::min(double(threads), double(host_.num_cores) / on_host);
}

// Fewer ranks on a host have more of its cores.
Hardware LaunchLayouts::share_of_rank(const MeasuredMachine& measured, int num_ranks) const {
  const double share = cores_of_rank(num_ranks) / cores_of_rank(measured.num_ranks);
  Hardware hardware = hardware_of(measured);
  measured.offload.set(num_ranks, hardware);
  scale_cores(hardware, share);
  return hardware;
}

FittingLayout LaunchLayouts::find(int most_ranks,
                                  const std::optional<MeasuredMachine>& measured) const {
  HostFacts host = host_;
  const Status read = add_data_facts(config_, open_input_, host);
  if (!read.ok()) return {std::nullopt, read.error().message};
  std::optional<Hardware> named;  // which ranks that train prefer to what they measure
  if (!config_.run.hardware.empty()) {
    Result<Hardware> loaded = load_hardware(config_.run.hardware);
    if (!loaded.ok()) return {std::nullopt, loaded.error().message};
    named = std::move(*loaded);
  }
  const auto end = std::chrono::steady_clock::now() + kSearchTime;
  const FewerRanks ranks{.most_ranks = most_ranks,
                         .ranks_per_host = ranks_per_host_,
                         .change = change_,
                         .hardware = [&](int n) -> std::optional<Hardware> {
                           if (named || !measured) return named;
                           return share_of_rank(*measured, n);
                         },
                         .has_time = [&] { return std::chrono::steady_clock::now() < end; }};
  const auto config = smaller_layout(config_, host, ranks);
  if (!config.ok()) return {std::nullopt, config.error().message};
  const bool is_fixed = config_.run.reproducible == Reproducible::Fixed;
  return {epoch_layout_of(*config),
          is_fixed ? "the last bits of the losses change with it; run.reproducible = \"layout\" "
                     "would keep them"
                   : ""};
}

}  // namespace trireme
