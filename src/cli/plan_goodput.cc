#include "cli/plan_goodput.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "cli/number_text.h"
#include "config/failure_rates_file.h"
#include "failures/failure_class.h"

namespace trireme {
namespace {

constexpr double kMostDays = 3650.0;
constexpr double kShownDifference = 0.005;  // between a printed share and that of the counts

std::string share_text(double share) { return fmt::format("{:.2f} %", 100.0 * share); }

// "3.09 h", "47.7 days"
std::string time_text(double seconds) {
  if (!std::isfinite(seconds)) return "never";
  if (seconds < 3600.0) return format_duration(seconds);
  if (seconds < 4 * 86400.0) return fmt::format("{:.3g} h", seconds / 3600.0);
  return fmt::format("{:.4g} days", seconds / 86400.0);
}

std::string interval_text(double seconds, double step_s) {
  const auto steps = std::max<int64_t>(1, std::llround(seconds / step_s));
  return fmt::format("{} ({} step{})", format_seconds(seconds), steps, steps == 1 ? "" : "s");
}

std::string size_lines(const GoodputForecast& forecast) {
  std::vector<std::string> sizes, published;
  for (const MttfOfSize& row : forecast.by_size) {
    sizes.push_back(fmt::format("{} at {}", time_text(row.mttf_s), row.devices));
    if (row.published_s > 0.0) published.push_back(std::to_string(row.devices));
  }
  std::string text = fmt::format("  MTTF by devices       {}\n", fmt::join(sizes, ", "));
  if (!published.empty()) {
    text += fmt::format("                        as the source has measured it at {} devices\n",
                        fmt::join(published, " and "));
  }
  return text;
}

std::string interval_lines(const GoodputForecast& forecast) {
  const GoodputQuestion& question = forecast.question;
  std::string text;
  const auto add = [&](const std::string& name, double TierIntervals::*tier) {
    text += fmt::format("  {:<21} Young {}, Daly {}, simulation {}\n", "interval, " + name,
                        interval_text(forecast.young.*tier, question.step_s),
                        interval_text(forecast.daly.*tier, question.step_s),
                        interval_text(forecast.simulated.*tier, question.step_s));
  };
  add("disk", &TierIntervals::disk_s);
  if (question.has_memory_tier) add("memory", &TierIntervals::memory_s);
  text += fmt::format("  {:<21} training waits {}", "a save on disk",
                      format_seconds(question.disk_save_s));
  if (question.disk_delay_s > 0.0) {
    text += fmt::format(", and it can be used {} later", format_seconds(question.disk_delay_s));
  }
  text += "\n";
  if (!forecast.configured) return text;
  const auto& [intervals, mean, formula] = *forecast.configured;
  return text +
         fmt::format("  as configured        {} with a save on disk every {}: {:+.2f} points\n",
                     share_text(mean), interval_text(intervals.disk_s, question.step_s),
                     100.0 * (mean - forecast.mean));
}

std::string cause_lines(const GoodputForecast& forecast, std::optional<double> price) {
  std::vector<CauseCost> costs = forecast.by_cause;
  std::stable_sort(costs.begin(), costs.end(),
                   [](const auto& a, const auto& b) { return a.lost_s() > b.lost_s(); });
  std::string text =
      fmt::format("  {:<30} {:<17} {:<8} {:>8} {:>9} {:>13}{}\n", "cause", "class", "takes",
                  "count", "lost", "device hours", price ? "         cost" : "");
  for (const CauseCost& cost : costs) {
    const double hours = forecast.device_hours(cost.lost_s());
    text += fmt::format("  {:<30} {:<17} {:<8} {:>8.3g} {:>9} {:>13}{}\n", cost.cause.name,
                        name_of(cost.cause.failure_class), name_of(cost.cause.domain), cost.count,
                        time_text(cost.lost_s()), plain_number(hours),
                        price ? fmt::format(" {:>12}", plain_number(hours * *price)) : "");
  }
  return text;
}

// The shares that a source prints and that its own counts contradict.
std::string printed_share_lines(const FailureRates& rates) {
  double sum = 0.0;
  for (const FailureCause& cause : rates.causes) sum += cause.per_host_day;
  std::string text;
  for (const FailureCause& cause : rates.causes) {
    const double share = cause.per_host_day / sum;
    if (cause.printed_share == 0.0 || std::abs(share - cause.printed_share) < kShownDifference) {
      continue;
    }
    text += fmt::format("  note: the source prints {:.1f} % for {}; its counts say {:.1f} %\n",
                        100.0 * cause.printed_share, cause.name, 100.0 * share);
  }
  return text;
}

}  // namespace

std::vector<Option> goodput_options(GoodputOptions& options) {
  return {{.name = "failures",
           .value_name = "FILE",
           .doc = fmt::format("forecast what failures will cost: the effective share of the time, "
                              "the best interval of checkpoints, spares and losses by cause; a "
                              "file of failure rates, or {}",
                              fmt::join(built_in_failure_rates(), " or ")),
           .target = &options.failures,
           .completion = Completion::File},
          {.name = "days",
           .value_name = "D",
           .doc = "with --failures, how many days the run lasts (default: those of --tokens, else "
                  "54)",
           .target = &options.days}};
}

Status check_goodput_options(const GoodputOptions& options) {
  if (!options.days) return Done{};
  if (options.failures.empty()) {
    return usage("--days says how long the run of --failures lasts; add --failures FILE");
  }
  if (std::isfinite(*options.days) && *options.days >= 1e-3 && *options.days <= kMostDays) {
    return Done{};
  }
  return usage(fmt::format("--days {}: the run must last from 0.001 to {:g} days", *options.days,
                           kMostDays));
}

std::string goodput_text(const GoodputForecast& forecast, std::optional<double> price_per_hour) {
  const GoodputQuestion& question = forecast.question;
  const FailureRates& rates = question.rates;
  double failures = 0.0;
  for (const CauseCost& cost : forecast.by_cause) failures += cost.count;
  std::string text = fmt::format(
      "\nfailures   with the rates of {} ({}): one in {} on {} devices, {:.4g} in {:.4g} days\n",
      rates.name, rates.source, time_text(forecast.mttf_s), question.devices, failures,
      question.days);
  text += fmt::format(
      "  effective share       {} of the time ({} to {} in 90 % of {} simulated runs); by formula "
      "{}{}\n",
      share_text(forecast.mean), share_text(forecast.percentile(0.05)),
      share_text(forecast.percentile(0.95)), forecast.shares.size(), share_text(forecast.formula),
      forecast.formula_holds ? "" : ", which does not hold for so many failures");
  text +=
      fmt::format("  lost                  {} until it trains again, {} done again, {} saving\n",
                  share_text(forecast.down_share), share_text(forecast.redone_share),
                  share_text(forecast.saving_share));
  text += fmt::format(
      "  spares                {} of {} hosts, so that 99 % of the time none is missing ({:.3g} "
      "are "
      "in repair)\n",
      forecast.spares.hosts, forecast.hosts, forecast.spares.mean_in_repair);
  text += size_lines(forecast) + interval_lines(forecast) + cause_lines(forecast, price_per_hour);
  text += printed_share_lines(rates);
  text += forecast.changes.empty() ? "  none of the changes that were tried would raise the share\n"
                                   : "  what would raise the share\n";
  for (const GoodputChange& change : forecast.changes) {
    text += fmt::format("    {:<44} {:>8}  {:+.2f} points\n", change.change,
                        share_text(change.share), 100.0 * change.gain);
  }
  return text;
}

}  // namespace trireme
