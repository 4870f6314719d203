#include "base/corruption_alarm.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme {
namespace {

constexpr std::string_view kCheckNames[] = {"state", "replay", "replay_elsewhere", "products"};

}  // namespace

std::string_view name_of(CorruptionCheck check) { return kCheckNames[size_t(check)]; }

std::optional<CorruptionCheck> corruption_check_of(std::string_view name) {
  const auto* const found = std::find(std::begin(kCheckNames), std::end(kCheckNames), name);
  if (found == std::end(kCheckNames)) return std::nullopt;
  return static_cast<CorruptionCheck>(found - std::begin(kCheckNames));
}

std::vector<CorruptionAlarm::NamedRank> listed_ranks(const CorruptionAlarm& alarm) {
  std::vector<CorruptionAlarm::NamedRank> firsts, others;
  for (const CorruptionAlarm::NamedRank& named : alarm.ranks) {
    const bool is_known = std::any_of(firsts.begin(), firsts.end(),
                                      [&](const auto& first) { return first.host == named.host; });
    (is_known ? others : firsts).push_back(named);
  }
  firsts.insert(firsts.end(), others.begin(), others.end());
  firsts.resize(std::min(firsts.size(), kMostNamedRanks));
  return firsts;
}

std::string named_ranks_text(const CorruptionAlarm& alarm) {
  if (alarm.ranks.empty()) return "an unknown rank";
  const char* const between = alarm.is_certain ? " and " : " or ";
  std::string text;
  for (const auto& [rank, host] : listed_ranks(alarm)) {
    text += fmt::format("{}rank {} on host {}", text.empty() ? "" : between, rank, host);
  }
  if (alarm.ranks.size() > kMostNamedRanks) {
    text += fmt::format("{}{} more ranks", between, alarm.ranks.size() - kMostNamedRanks);
  }
  return text;
}

std::vector<std::string> hosts_named_by(const CorruptionAlarm& alarm) {
  std::vector<std::string> hosts;
  for (const CorruptionAlarm::NamedRank& named : alarm.ranks) {
    if (std::find(hosts.begin(), hosts.end(), named.host) == hosts.end()) {
      hosts.push_back(named.host);
    }
  }
  return hosts;
}

}  // namespace trireme
