#include "config/failure_rates_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "base/nearest_name.h"
#include "config/bounded_field.h"
#include "config/config_load.h"
#include "config/config_toml.h"
#include "failures/failure_class.h"
#include "trireme_config_text.h"

namespace trireme {
namespace {

constexpr double kMostDevices = 1e8;
constexpr double kMostSeconds = 1e7;  // four months
constexpr double kMostPerDay = 1e9;   // failures
constexpr double kShareTolerance = 0.01;

struct BuiltInRates {
  std::string_view name, text;
};
constexpr BuiltInRates kBuiltIn[] = {{"llama3", embedded::kLlama3Toml},
                                     {"kokolis", embedded::kKokolisToml}};

// What a file says about a cause before it is a rate.
struct WrittenCause {
  FailureCause cause;
  double count = -1.0, share = -1.0, per_host_day = -1.0, per_day = -1.0;  // -1: absent
  std::string where;                                                       // its first line
};

struct WrittenRates {
  FailureRates rates;
  double counted_devices = 0.0, counted_days = 0.0;
  double per_host_day = 0.0;  // of all causes, of which they have shares
  std::vector<WrittenCause> causes;
};

std::vector<BoundedField> rates_fields(WrittenRates& written) {
  FailureRates& rates = written.rates;
  return {word_field("name", &rates.name),
          word_field("source", &rates.source),
          number_field("devices_per_host", &rates.devices_per_host, 1, 1e4),
          number_field("hosts_per_rack", &rates.hosts_per_rack, 1, 1e6),
          number_field("hosts_per_pod", &rates.hosts_per_pod, 1, 1e6),
          number_field("counted_devices", &written.counted_devices, 1, kMostDevices),
          number_field("counted_days", &written.counted_days, 1e-6, 1e6),
          number_field("per_host_day", &written.per_host_day, 0, kMostPerDay),
          number_field("restart_s", &rates.restart_s, 0, kMostSeconds),
          number_field("repair_hours", &rates.repair_hours, 0, 1e5),
          number_field("save_s", &rates.save_s, 0, kMostSeconds),
          number_field("storage_bytes_per_s", &rates.storage_bytes_per_s, 0, 1e18),
          choice_field("memory_survives", rates.memory_survives, kFailureDomainNames),
          number_field("lemon_share", &rates.lemon_share, 0, 1),
          number_field("lemon_factor", &rates.lemon_factor, 1, 1e6),
          number_field("lemon_drain_after", &rates.lemon_drain_after, 0, 1e6)};
}

std::vector<BoundedField> cause_fields(WrittenCause& written) {
  FailureCause& cause = written.cause;
  return {choice_field("class", cause.failure_class, kFailureClassNames),
          choice_field("domain", cause.domain, kFailureDomainNames),
          number_field("count", &written.count, 0, kMostPerDay),
          number_field("share", &written.share, 0, 1),
          number_field("per_host_day", &written.per_host_day, 0, kMostPerDay),
          number_field("per_day", &written.per_day, 0, kMostPerDay),
          number_field("restart_s", &cause.restart_s, 0, kMostSeconds),
          number_field("printed_share", &cause.printed_share, 0, 1)};
}

WrittenCause& cause_named(WrittenRates& written, const std::string& name,
                          const ConfigAssignment& assignment) {
  for (WrittenCause& one : written.causes) {
    if (one.cause.name == name) return one;
  }
  WrittenCause& cause = written.causes.emplace_back();
  cause.where = assignment.origin.where();
  cause.cause.name = name;
  return cause;
}

Status assign_published(FailureRates& rates, const std::string& size,
                        const ConfigAssignment& assignment) {
  PublishedMttf point;
  const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), point.devices);
  const bool is_size = error == std::errc() && end == size.data() + size.size();
  if (!is_size || point.devices < 1 || double(point.devices) > kMostDevices) {
    return usage(
        fmt::format("{}: the key must be a number of devices, such as 1024 = 7.9", assignment.key));
  }
  TRIREME_TRY_DONE(assign_bounded({number_field(size, &point.hours, 1e-6, 1e9)}, size, assignment));
  rates.published.push_back(point);
  return Done{};
}

Status assign_rates(WrittenRates& written, const ConfigAssignment& assignment) {
  const std::string& key = assignment.key;
  const size_t first = key.find('.'), last = key.rfind('.');
  const std::string section = key.substr(0, first);
  if (first != std::string::npos) {
    const std::string name = key.substr(last + 1);
    if (section == "rates")
      return assign_bounded(rates_fields(written), key.substr(first + 1), assignment);
    if (section == "mttf_hours") {
      return assign_published(written.rates, key.substr(first + 1), assignment);
    }
    if (section == "causes" && last > first + 1) {
      const std::string cause = key.substr(first + 1, last - first - 1);
      return assign_bounded(cause_fields(cause_named(written, cause, assignment)), name,
                            assignment);
    }
    if (section == "causes") {
      return usage(
          fmt::format("{} is no cause with keys: write class, domain and a rate below "
                      "[causes.NAME]",
                      key));
    }
  }
  return usage(fmt::format(
      "{} is unknown; failure rates have [rates], [causes.NAME] and [mttf_hours]", key));
}

// Turns counts and shares into rates.
void derive_rates(WrittenRates& written, const std::string& source,
                  std::vector<std::string>& problems) {
  FailureRates& rates = written.rates;
  const double host_days =
      written.counted_devices / double(rates.devices_per_host) * written.counted_days;
  double shares = 0.0;
  bool has_shares = false;
  for (WrittenCause& one : written.causes) {
    const auto refuse = [&](const std::string& why) {
      problems.push_back(fmt::format("{}: [causes.{}] {}", one.where, one.cause.name, why));
    };
    const int said = int(one.count >= 0) + int(one.share >= 0) + int(one.per_host_day >= 0) +
                     int(one.per_day >= 0);
    if (said != 1) {
      refuse(
          fmt::format("must have one of count, share, per_host_day and per_day, and has {}", said));
    } else if (one.count >= 0 && host_days <= 0.0) {
      refuse("has a count; say with rates.counted_devices and rates.counted_days of what");
    } else if (one.share >= 0 && written.per_host_day <= 0.0) {
      refuse("has a share; say with rates.per_host_day of what");
    }
    if (one.share >= 0) {
      shares += one.share;
      has_shares = true;
    }
    one.cause.per_host_day = one.per_host_day >= 0 ? one.per_host_day
                             : one.count >= 0      ? one.count / std::max(host_days, 1e-30)
                             : one.share >= 0      ? one.share * written.per_host_day
                                                   : 0.0;
    one.cause.per_day = std::max(one.per_day, 0.0);
    rates.causes.push_back(one.cause);
  }
  if (has_shares && std::abs(shares - 1.0) > kShareTolerance) {
    problems.push_back(fmt::format(
        "{}: the shares of the causes add up to {:.4g} and not to 1: give the rest to a "
        "cause \"other\"",
        source, shares));
  }
}

void check_together(WrittenRates& written, const std::string& source,
                    std::vector<std::string>& problems) {
  FailureRates& rates = written.rates;
  std::sort(rates.published.begin(), rates.published.end(),
            [](const auto& a, const auto& b) { return a.devices < b.devices; });
  for (size_t i = 1; i < rates.published.size(); ++i) {
    if (rates.published[i].devices != rates.published[i - 1].devices) continue;
    problems.push_back(fmt::format("{}: mttf_hours has two values for {} devices", source,
                                   rates.published[i].devices));
  }
  if (rates.causes.empty()) {
    problems.push_back(fmt::format(
        "{}: no cause of failures: add [causes.NAME] with a class, a domain and a rate", source));
  }
  if (rates.lemon_share > 0.0 && rates.lemon_factor == 1.0) {
    problems.push_back(fmt::format(
        "{}: rates.lemon_share has no effect with rates.lemon_factor = 1: say how many times as "
        "often these hosts fail",
        source));
  }
}

}  // namespace

std::vector<std::string> built_in_failure_rates() {
  std::vector<std::string> names;
  for (const BuiltInRates& one : kBuiltIn) names.emplace_back(one.name);
  return names;
}

Result<FailureRates> parse_failure_rates(std::string_view text, const std::string& source) {
  TRIREME_TRY(assignments, parse_config_text(text, source));
  WrittenRates written;
  std::vector<std::string> problems;
  for (const ConfigAssignment& assignment : assignments) {
    const Status assigned = assign_rates(written, assignment);
    if (assigned.ok()) continue;
    problems.push_back(fmt::format("{}: {}", assignment.origin.where(), assigned.error().message));
  }
  if (problems.empty()) {
    derive_rates(written, source, problems);
    check_together(written, source, problems);
  }
  if (!problems.empty()) return usage(fmt::format("{}", fmt::join(problems, "\n")));
  return std::move(written.rates);
}

Result<FailureRates> load_failure_rates(const std::string& name_or_path) {
  for (const BuiltInRates& one : kBuiltIn) {
    if (one.name != name_or_path) continue;
    return parse_failure_rates(one.text, fmt::format("failures/{}.toml", one.name));
  }
  std::error_code ignored;
  const bool is_name = name_or_path.find_first_of("./") == std::string::npos;
  if (is_name && !std::filesystem::exists(name_or_path, ignored)) {
    const std::string nearest = nearest_name(name_or_path, built_in_failure_rates());
    return usage(fmt::format("--failures {}: no such file, and the built-in rates are {}{}",
                             name_or_path, fmt::join(built_in_failure_rates(), " and "),
                             nearest.empty() ? "" : "; did you mean " + nearest + "?"));
  }
  TRIREME_TRY(text, read_config_file(name_or_path));
  return parse_failure_rates(text, name_or_path);
}

}  // namespace trireme
