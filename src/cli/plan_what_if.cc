#include "cli/plan_what_if.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/units.h"

namespace trireme {
namespace {

template <typename T>
bool parse_whole(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// Parses "NAME=NUMBER". Tiers may have any name, so the last "=" counts.
bool parse_pair(std::string_view text, std::string_view& name, double& number) {
  const size_t equals = text.rfind('=');
  if (equals == std::string_view::npos || equals == 0) return false;
  name = text.substr(0, equals);
  return parse_whole(text.substr(equals + 1), number) && std::isfinite(number);
}

std::string longer_text(double seconds, double before_s) {
  return fmt::format("{} (+{:.1f} %)", format_seconds(seconds), 100.0 * (seconds / before_s - 1.0));
}

// Lists the places where these ranks wait longer. Waits below a thousandth of the step are left
// out.
std::string waits_text(const WaitingRanks& group, double step_s) {
  std::vector<std::string> waits;
  const auto add = [&](double seconds, const char* where) {
    if (std::abs(seconds) < 1e-3 * step_s) return;
    waits.push_back(fmt::format("{} {} {}", format_seconds(std::abs(seconds)),
                                seconds > 0.0 ? "longer" : "shorter", where));
  };
  add(group.in_transfers_s, "in transfers");
  add(group.in_layers_s, "inside layers");
  add(group.for_stages_s, "for other stages");
  add(group.at_end_s, "at the end of the step");
  return waits.empty() ? "do not wait longer" : fmt::format("wait {}", fmt::join(waits, ", "));
}

}  // namespace

std::vector<Option> what_if_options(WhatIfOptions& options) {
  return {{.name = "slow-rank",
           .value_name = "R=FACTOR",
           .doc = "predict the step if rank R computes FACTOR times as long, such as 5=1.3, and "
                  "say which ranks wait for it",
           .target = &options.slow_ranks},
          {.name = "slow-link",
           .value_name = "TIER=SHARE",
           .doc = "predict the step if a tier of the cluster's links has only this share of its "
                  "bandwidth, such as node=0.5",
           .target = &options.slow_links},
          {.name = "jitter",
           .value_name = "SIGMA",
           .doc = "predict the step if the time of every action varies by this relative deviation, "
                  "such as 0.05",
           .target = &options.jitter},
          {.name = "seed",
           .value_name = "N",
           .doc = "with --jitter, the seed of the random times; 1 by default",
           .target = &options.seed}};
}

Result<Disturbances> disturbances_of(const WhatIfOptions& options) {
  Disturbances disturbances;
  std::string_view name;
  double number = 0.0;
  for (const std::string& text : options.slow_ranks) {
    int position = 0;
    if (!parse_pair(text, name, number) || !parse_whole(name, position)) {
      return usage(fmt::format(
          "--slow-rank {}: give a rank and how many times as long it computes, such as 5=1.3",
          text));
    }
    disturbances.ranks.push_back({position, number});
  }
  for (const std::string& text : options.slow_links) {
    if (!parse_pair(text, name, number)) {
      return usage(fmt::format(
          "--slow-link {}: give a tier of the cluster and the share of its bandwidth that remains, "
          "such as node=0.5",
          text));
    }
    disturbances.links.push_back({std::string(name), number});
  }
  if (options.seed && !options.jitter) {
    return usage("--seed is the seed of --jitter; add --jitter SIGMA, such as 0.05");
  }
  disturbances.jitter = {.sigma = options.jitter.value_or(0.0),
                         .seed = uint64_t(options.seed.value_or(1))};
  return disturbances;
}

std::string what_if_text(const WhatIf& what_if) {
  std::string text = fmt::format("what if    the step takes {} instead of {}\n",
                                 longer_text(what_if.step_s(), what_if.undisturbed_s),
                                 format_seconds(what_if.undisturbed_s));
  for (const Cause& cause : what_if.causes) {
    text += fmt::format("  {} alone: {}\n", cause.option,
                        longer_text(cause.alone_s, what_if.undisturbed_s));
  }
  for (const WaitingRanks& group : what_if.waiting) {
    text += fmt::format("  {} ({}) {}\n", group.who, group.num_ranks,
                        waits_text(group, what_if.step_s()));
  }
  const auto busy_s = [&](int rank) { return what_if.step->ranks()[size_t(rank)].busy_s; };
  const int slowest = what_if.step->slowest(), median = what_if.step->median();
  return text + fmt::format("  rank {} computes {}, the median rank {} {}\n", slowest,
                            format_seconds(busy_s(slowest)), median,
                            format_seconds(busy_s(median)));
}

}  // namespace trireme
