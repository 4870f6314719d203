#include "cli/plan_storage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "config/storage_cluster_file.h"
#include "store/store_code.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

// 2+1 is xor.
constexpr const char* kUsualCodes[] = {"copies:3", "2+1", "4+2", "8+3"};

Result<ParityCode> parse_code(const std::string& text) {
  TRIREME_TRY(code, parse_store_code(text));
  return ParityCode{code.num_data, code.num_parity};
}

std::string name_of(const ParityCode& code) {
  return text_of(StoreCode{code.num_data, code.num_parity});
}

// "240 PB", in powers of 1000, as disks are sold.
std::string decimal_bytes(double bytes) {
  const char* const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  int unit = 0;
  for (; bytes >= 999.5 && unit < 6; ++unit) bytes /= 1000.0;
  return fmt::format("{:.3g} {}", bytes, units[unit]);
}

std::string cluster_lines(const StorageCluster& cluster) {
  const std::string source = cluster.source.empty() ? "" : fmt::format(" ({})", cluster.source);
  std::string text = fmt::format(
      "storage    {}{}: {} servers x {} disk{} of {} = {}; {}/s for long, {}/s at peak\n",
      cluster.name.empty() ? "a cluster" : cluster.name, source, cluster.servers,
      cluster.disks_per_server, cluster.disks_per_server == 1 ? "" : "s",
      decimal_bytes(cluster.disk_bytes), decimal_bytes(cluster.raw_bytes()),
      decimal_bytes(cluster.bytes_per_s), decimal_bytes(cluster.peak()));
  std::vector<std::string> losses;
  for (const LossUnit& unit : loss_units(cluster)) {
    losses.push_back(
        fmt::format("{:.4g} of {:.6g} {}", unit.count * unit.per_year, unit.count, unit.name));
  }
  return text + fmt::format("  lost in a year        {}\n", fmt::join(losses, ", ")) +
         fmt::format("  repair                {}/s, {} after a loss, {}\n",
                     decimal_bytes(cluster.repair_bytes_per_s), format_seconds(cluster.detect_s),
                     cluster.worst_first ? "blocks that have lost most chunks first"
                                         : "in the order of the losses");
}

// "8.14e-09 (+- 2e-11), bytes 3.1e-18", or how often if it is nearly certain.
std::string losses_text(const CodeOnCluster& one) {
  if (!one.keeps_up()) return "all: repair never catches up";
  const double loss = one.loss_in_a_year();
  const bool is_certain = loss > 0.99;
  return fmt::format("{:.3g}{} (+- {:.1g}), bytes {:.2g}",
                     is_certain ? one.drawn.rate.events_per_year : loss, is_certain ? " times" : "",
                     one.drawn.events_half_width * (is_certain ? 1.0 : 1.0 - loss),
                     one.lost_share_per_year);
}

std::string code_lines(const StoragePlan& plan) {
  std::string text =
      fmt::format("  {:<9} {:>7} {:>9} {:>11} {:>8}  {:<35}  {}\n", "code", "stored", "files",
                  "written", "repair", "lost in a year: simulated", "formula");
  for (const CodeOnCluster& one : plan.codes) {
    text += fmt::format("  {:<9} {:>7.4g} {:>9} {:>9}/s {:>7.2g}%  {:<35}  {:.3g}\n",
                        name_of(one.code), one.stored_bytes, decimal_bytes(one.capacity_bytes),
                        decimal_bytes(one.write_bytes_per_s), 100.0 * one.repair_share,
                        losses_text(one), one.chain_loss_in_a_year());
  }
  return text;
}

// The share of the speed that saves take.
std::string load_text(const CodeOnCluster& one, const CheckpointTraffic& traffic) {
  if (traffic.interval_s > 0.0) {
    return fmt::format("{:.2g} % of the speed", 100.0 * one.busy_share);
  }
  if (one.least_steps > 1) {
    return fmt::format("all of the speed at one in {} steps", one.least_steps);
  }
  return fmt::format("{:.2g} % of the speed at one in each step",
                     100.0 * one.sustained.save_s / traffic.step_s);
}

std::string traffic_lines(const StoragePlan& plan) {
  if (!plan.question.traffic) return "";
  const CheckpointTraffic& traffic = *plan.question.traffic;
  std::string text = fmt::format(
      "  checkpoint            {} written, {} read by {} ranks to resume; a step takes {}\n",
      decimal_bytes(traffic.save_bytes), decimal_bytes(traffic.restore_bytes), traffic.ranks,
      format_seconds(traffic.step_s));
  text += fmt::format("  {:<9} {:>12} {:>12} {:>12} {:>12}  {}\n", "code", "save", "at peak",
                      "restore", "at peak", "saves take");
  for (const CodeOnCluster& one : plan.codes) {
    text += fmt::format("  {:<9} {:>12} {:>12} {:>12} {:>12}  {}\n", name_of(one.code),
                        format_seconds(one.sustained.save_s), format_seconds(one.peak.save_s),
                        format_seconds(one.sustained.restore_s), format_seconds(one.peak.restore_s),
                        load_text(one, traffic));
  }
  return text;
}

Json code_json(const CodeOnCluster& one, const std::optional<CheckpointTraffic>& traffic) {
  Json json = {{"code", name_of(one.code)},
               {"data", one.code.num_data},
               {"parity", one.code.num_parity},
               {"overhead", one.stored_bytes},
               {"capacity_bytes", one.capacity_bytes},
               {"write_bytes_per_s", one.write_bytes_per_s},
               {"repair_share", one.repair_share},
               {"loss_per_year", one.loss_in_a_year()},
               {"loss_events_per_year", one.drawn.rate.events_per_year},
               {"loss_events_half_width", one.drawn.events_half_width},
               {"lost_share_per_year", one.lost_share_per_year},
               {"formula",
                {{"loss_per_year", one.chain_loss_in_a_year()},
                 {"loss_events_per_year", one.chain.events_per_year}}}};
  if (!traffic) return json;
  json["save_s"] = {{"sustained", one.sustained.save_s}, {"peak", one.peak.save_s}};
  json["restore_s"] = {{"sustained", one.sustained.restore_s}, {"peak", one.peak.restore_s}};
  json["least_steps"] = one.least_steps;
  json["busy_share"] = traffic->interval_s > 0.0 ? Json(one.busy_share) : Json(nullptr);
  return json;
}

}  // namespace

std::vector<Option> storage_options(StorageOptions& options) {
  return {{.name = "storage",
           .value_name = "FILE",
           .doc = fmt::format("plan a storage cluster: capacity, speed and losses of codes, and "
                              "the time of a checkpoint and a restore; a file of a cluster, or {}; "
                              "RUN.toml may be left out",
                              fmt::join(built_in_storage_clusters(), " or ")),
           .target = &options.cluster,
           .completion = Completion::File},
          {.name = "code",
           .value_name = "CODE",
           .doc = "with --storage, plan this code, too: K+M, xor or copies:N",
           .target = &options.code}};
}

Status check_storage_options(const StorageOptions& options) {
  if (options.code.empty()) return Done{};
  if (options.cluster.empty()) {
    return usage("--code is a code of --storage; add --storage FILE");
  }
  const Result<ParityCode> code = parse_code(options.code);
  return code.ok() ? Status(Done{}) : Status(with_context(code.error(), "--code"));
}

Result<StoragePlan> storage_plan(const StorageOptions& options,
                                 const std::optional<CheckpointTraffic>& traffic) {
  TRIREME_TRY(cluster, load_storage_cluster(options.cluster));
  StorageQuestion question{.cluster = cluster, .traffic = traffic};
  if (!options.code.empty()) {
    TRIREME_TRY(code, parse_code(options.code));
    question.codes.push_back(code);
  }
  for (const char* usual : kUsualCodes) {
    TRIREME_TRY(code, parse_code(usual));
    const bool fits = code.num_data + code.num_parity <= cluster.num_domains();
    if (fits && std::ranges::count(question.codes, code) == 0) question.codes.push_back(code);
  }
  if (question.codes.empty()) question.codes.push_back({2, 1});  // which is refused
  return plan_storage(question);
}

std::string storage_text(const StoragePlan& plan) {
  return cluster_lines(plan.question.cluster) + code_lines(plan) + traffic_lines(plan);
}

Json storage_json(const StoragePlan& plan) {
  const StorageCluster& cluster = plan.question.cluster;
  Json json = {{"name", cluster.name},
               {"servers", cluster.servers},
               {"disks", int64_t(cluster.num_disks())},
               {"domains", cluster.num_domains()},
               {"raw_bytes", cluster.raw_bytes()},
               {"bytes_per_s", cluster.bytes_per_s},
               {"peak_bytes_per_s", cluster.peak()},
               {"samples", plan.question.samples}};
  if (const auto& traffic = plan.question.traffic) {
    json["checkpoint_bytes"] = traffic->save_bytes;
    json["restore_bytes"] = traffic->restore_bytes;
    json["interval_s"] = traffic->interval_s > 0.0 ? Json(traffic->interval_s) : Json(nullptr);
  }
  json["codes"] = Json::array();
  for (const CodeOnCluster& one : plan.codes) {
    json["codes"].push_back(code_json(one, plan.question.traffic));
  }
  return json;
}

}  // namespace trireme
