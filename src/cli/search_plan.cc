#include "cli/search_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "planner/alternatives.h"
#include "planner/near_ties.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

double share(double part_s, double step_s) { return step_s > 0.0 ? part_s / step_s : 0.0; }

std::string set_options(const FoundLayouts& found, const PricedLayout& priced) {
  return set_options(priced.layout, found.search.global_sequences, found.config);
}

std::string command_of(const FoundLayouts& found) {
  const std::string set = set_options(found, found.search.best.front());
  return fmt::format("{} {}{}{}{}", found.program, found.options, set.empty() ? "" : " ", set,
                     found.arguments);
}

// Returns how many layouts were ruled out by a bound on their time: neither refused nor among the
// best.
int64_t num_slower(const LayoutSearch& search) {
  int64_t count = search.num_layouts - int64_t(search.best.size());
  for (const RefusedLayouts& refused : search.refused) count -= refused.count;
  return count;
}

std::string refused_text(const LayoutSearch& search) {
  std::string text =
      fmt::format("why other layouts are not in the table\n  {:>9}  slower\n", num_slower(search));
  for (const RefusedLayouts& refused : search.refused) {
    text += fmt::format("  {:>9}  {}, such as {}: {}\n", refused.count, refused.rule,
                        describe(refused.example), refused.message);
  }
  return text;
}

Json priced_json(const FoundLayouts& found, const PricedLayout& priced) {
  return {{"layout", layout_json(priced.layout)},
          {"num_microbatches", priced.num_microbatches},
          {"step_s", priced.time.step},
          {"mfu", priced.mfu},
          {"peak", priced.peak_bytes},
          {"arena", priced.arena_bytes},
          {"bubble", priced.time.bubble},
          {"exposed_comm", priced.time.exposed_comm},
          {"set", set_options(found, priced)}};
}

Json regrets_json(const FoundLayouts& found) {
  Json all = Json::array();
  for (const SimpleChoice& choice : found.simple) {
    Json json = {{"name", choice.name}};
    if (choice.best) {
      json["regret"] = regret_of(*choice.best, found.search.best);
      json.update(priced_json(found, *choice.best));
    } else {
      json["refusal"] = choice.refusal;
    }
    all.push_back(json);
  }
  return all;
}

std::string second_best_text(const LayoutSearch& search) {
  if (search.best.size() < 2) return "";
  return fmt::format("\nthe next choice after * differs from it in {}\n",
                     difference_text(search.best[0], search.best[1]));
}

std::string regrets_text(const FoundLayouts& found) {
  if (found.simple.empty()) return "";
  std::string text = "\nsimple choices, beside the fastest layout\n";
  for (const SimpleChoice& choice : found.simple) {
    if (!choice.best) {
      text += fmt::format("  {}: not feasible: {}\n", choice.name, choice.refusal);
      continue;
    }
    text += fmt::format("  {}: +{:.1f} % ({})\n", choice.name,
                        100.0 * regret_of(*choice.best, found.search.best),
                        describe(choice.best->layout));
  }
  return text;
}

std::string front_text(const std::vector<PricedLayout>& front) {
  if (front.empty()) return "";
  std::string text = fmt::format(
      "\nlayouts that nothing beats in both step time and memory of the largest rank, up to {:g} "
      "times the fastest step\n\n  {:>10} {:>6} {:>10}  {}\n",
      kFrontSlowest, "step", "MFU", "peak", "layout");
  for (const PricedLayout& priced : front) {
    text +=
        fmt::format("  {:>10} {:>5.1f}% {:>10}  {}\n", format_seconds(priced.time.step),
                    100.0 * priced.mfu, format_bytes(priced.arena_bytes), describe(priced.layout));
  }
  return text;
}

std::string cell_of_share(double part_s, double step_s) {
  return fmt::format("{:.1f}%", 100.0 * share(part_s, step_s));
}

// Says which ranks of a mixed cluster have which device.
std::string ranks_of_devices(const Hardware& hardware, int num_ranks) {
  if (!hardware.is_mixed()) return "";
  std::string text;
  for (int rank = 0, first = 0; rank < num_ranks; first = rank) {
    const int device = hardware.device_of(rank);
    while (rank < num_ranks && hardware.device_of(rank) == device) ++rank;
    text +=
        fmt::format("  ranks {} to {}: {}{}\n", first, rank - 1,
                    hardware.all_of_device(device).name, hardware.nodes().text(first, rank - 1));
  }
  return text + "\n";
}

}  // namespace

PageTable search_table(const LayoutSearch& search) {
  PageTable table = {{"", "step", "MFU", "peak", "bubble", "exposed", "accum", "layout"}};
  std::vector<const PricedLayout*> by_time;
  for (const PricedLayout& priced : search.best) by_time.push_back(&priced);
  std::ranges::stable_sort(by_time, {}, [](const PricedLayout* of) { return of->time.step; });
  for (const PricedLayout* shown : by_time) {
    const PricedLayout& priced = *shown;
    const StepTimes& time = priced.time;
    const bool is_tie = time.step <= by_time.front()->time.step * (1.0 + kNearTie);
    const char* mark = &priced == &search.best.front() ? "*" : is_tie ? "~" : "";
    table.push_back({std::to_string(table.size()) + mark, format_seconds(time.step),
                     fmt::format("{:.1f}%", 100.0 * priced.mfu), format_bytes(priced.arena_bytes),
                     cell_of_share(time.bubble, time.step),
                     cell_of_share(time.exposed_comm, time.step),
                     std::to_string(priced.num_microbatches), describe(priced.layout)});
  }
  return table;
}

std::string search_text(const FoundLayouts& found, bool explain) {
  const LayoutSearch& search = found.search;
  std::string text =
      fmt::format("{} layouts of {} rank{} for {} sequences a step on {}, {} of them simulated\n\n",
                  search.num_layouts, found.num_ranks, found.num_ranks == 1 ? "" : "s",
                  search.global_sequences, found.hardware.name, search.num_simulated);
  text += ranks_of_devices(found.hardware, found.num_ranks);
  for (const std::vector<std::string>& row : search_table(search)) {
    text += fmt::format("  {:<3} {:>9} {:>6} {:>10} {:>7} {:>8} {:>5}  {}\n", row[0], row[1],
                        row[2], row[3], row[4], row[5], row[6], row[7]);
  }
  text +=
      "\nstep, bubble and exposed communication of the slowest rank; memory of the rank that "
      "needs most;\naccum: micro-batches of a step and rank\n";
  text += fmt::format(
      "* is chosen: of the layouts that nearly tie with the fastest (~, at most {:g} % slower, "
      "less "
      "than\npredictions are off) it needs the least memory, and then the least communication\n",
      100.0 * kNearTie);
  text += second_best_text(search) + regrets_text(found) + front_text(found.front);
  if (explain) text += "\n" + refused_text(search);
  return text + "\nthe layout marked * runs with\n  " + command_of(found) + "\n";
}

Json layout_json(const LayoutChoice& layout) {
  const Mesh& mesh = layout.mesh;
  const LayoutTransfers transfers = layout.transfers.value_or(LayoutTransfers{});
  return {{"tp", mesh.tp},
          {"cp", mesh.cp},
          {"pp", mesh.pp},
          {"dp", mesh.dp},
          {"ep", mesh.ep},
          {"zero", layout.zero},
          {"schedule", layout.schedule},
          {"chunks", layout.chunks},
          {"micro_sequences", layout.micro_sequences},
          {"recompute", name_of(layout.recompute)},
          {"sequence", layout.exchange.sequence},
          {"tp_overlap", layout.exchange.tp_overlap},
          {"context", name_of(layout.exchange.context)},
          {"hsdp_shard", layout.hsdp_shard},
          {"order", to_string(layout.mesh.order)},
          {"offload", name_of(transfers.offload)},
          {"bucket_bytes", transfers.bucket_bytes},
          {"prefetch", transfers.prefetch}};
}

Json search_json(const FoundLayouts& found) {
  const LayoutSearch& search = found.search;
  Json best = Json::array();
  for (const PricedLayout& priced : search.best) best.push_back(priced_json(found, priced));
  Json front = Json::array();
  for (const PricedLayout& priced : found.front) front.push_back(priced_json(found, priced));
  Json refused = Json::array();
  for (const RefusedLayouts& group : search.refused) {
    refused.push_back({{"rule", group.rule},
                       {"count", group.count},
                       {"example", layout_json(group.example)},
                       {"message", group.message}});
  }
  Json json = {{"num_layouts", search.num_layouts},
               {"num_simulated", search.num_simulated},
               {"num_slower", num_slower(search)},
               {"best", best},
               {"refused", refused},
               {"regrets", regrets_json(found)},
               {"command", command_of(found)}};
  if (search.best.size() > 1) {
    json["second_differs"] = difference_text(search.best[0], search.best[1]);
  }
  if (!found.front.empty()) json["pareto"] = front;
  return json;
}

}  // namespace trireme
