#include "session/preflight_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json_text.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

double median_of(std::vector<double> values) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

struct Kind {
  const char* what;
  double PreflightRank::*value;
  double factor;
};
constexpr Kind kKinds[] = {{"compute", &PreflightRank::flops_per_s, kOddFactor},
                           {"memory", &PreflightRank::memory_bytes_per_s, kOddFactor},
                           {"disk", &PreflightRank::disk_bytes_per_s, kOddDiskFactor}};

double median_of(const PreflightReport& report, const Kind& kind) {
  std::vector<double> values;
  for (const PreflightRank& rank : report.ranks) values.push_back(rank.*kind.value);
  return median_of(std::move(values));
}

double median_link(const PreflightReport& report) {
  std::vector<double> values;
  for (const PreflightLink& link : report.links) values.push_back(link.bytes_per_s);
  return median_of(std::move(values));
}

// Returns the rate of the slowest link in the better half of a rank's links, or 0 without links.
double link_rate(const PreflightReport& report, int rank) {
  std::vector<double> own;
  for (const PreflightLink& link : report.links) {
    if (link.a == rank || link.b == rank) own.push_back(link.bytes_per_s);
  }
  if (own.empty()) return 0.0;
  std::sort(own.begin(), own.end());
  return own[own.size() / 2];
}

void add_odd_links(const PreflightReport& report, std::vector<OddOne>& odd) {
  // A slow rank makes all links to it slow. So the median is taken over ranks, not over links.
  std::vector<double> rates;
  for (const PreflightRank& rank : report.ranks) {
    if (const double rate = link_rate(report, rank.rank); rate > 0.0) rates.push_back(rate);
  }
  const double median = median_of(rates);
  std::set<int> slow;
  for (const PreflightRank& rank : report.ranks) {
    const double rate = link_rate(report, rank.rank);
    if (rate <= 0.0 || rate * kOddFactor >= median) continue;
    slow.insert(rank.rank);
    odd.push_back({"link", rank.rank, -1, rank.host, rate, median});
  }
  for (const PreflightLink& link : report.links) {
    const bool is_of_slow = slow.contains(link.a) || slow.contains(link.b);
    if (is_of_slow || link.bytes_per_s * kOddFactor >= median) continue;
    odd.push_back(
        {"link", link.a, link.b, report.ranks[size_t(link.a)].host, link.bytes_per_s, median});
  }
}

std::string rate_text(const std::string& what, double value) {
  return what == "compute" ? fmt::format("{:.1f} GFLOP/s", value * 1e-9)
                           : fmt::format("{:.3g} GB/s", value * 1e-9);
}

}  // namespace

std::vector<OddOne> odd_ones(const PreflightReport& report) {
  std::vector<OddOne> odd;
  for (const Kind& kind : kKinds) {
    const double median = median_of(report, kind);
    for (const PreflightRank& rank : report.ranks) {
      if (rank.*kind.value * kind.factor >= median) continue;
      odd.push_back({kind.what, rank.rank, -1, rank.host, rank.*kind.value, median});
    }
  }
  add_odd_links(report, odd);
  return odd;
}

std::string preflight_json(const PreflightReport& report) {
  Json ranks = Json::array(), links = Json::array(), odd = Json::array();
  for (const PreflightRank& rank : report.ranks) {
    ranks.push_back({{"rank", rank.rank},
                     {"host", rank.host},
                     {"flops_per_s", rank.flops_per_s},
                     {"memory_bytes_per_s", rank.memory_bytes_per_s},
                     {"disk_bytes_per_s", rank.disk_bytes_per_s}});
  }
  for (const PreflightLink& link : report.links) {
    links.push_back({{"ranks", {link.a, link.b}},
                     {"bytes_per_s", link.bytes_per_s},
                     {"latency_s", link.latency_s}});
  }
  for (const OddOne& one : odd_ones(report)) {
    Json entry = {{"what", one.what},   {"rank", one.rank},     {"host", one.host},
                  {"value", one.value}, {"median", one.median}, {"factor", one.factor()}};
    if (one.peer >= 0) entry["peer"] = one.peer;
    odd.push_back(std::move(entry));
  }
  Json median = Json::object();
  for (const Kind& kind : kKinds) median[kind.what] = median_of(report, kind);
  median["link"] = median_link(report);
  const bool is_good = odd.empty();
  return lenient_json_text(Json{{"good", is_good},
                                {"ranks", ranks},
                                {"links", links},
                                {"median", median},
                                {"odd", odd},
                                {"seconds", report.seconds}},
                           2) +
         "\n";
}

bool is_good_preflight(const std::string& json) {
  const Json report = parse_ordered_json_or_discard(json);
  return report.is_object() && report.value("good", false);
}

std::string preflight_text(const PreflightReport& report) {
  std::string text = fmt::format("{:<5} {:<20} {:>15} {:>12} {:>12}\n", "rank", "host", "compute",
                                 "memory", "disk");
  for (const PreflightRank& rank : report.ranks) {
    text += fmt::format("{:<5} {:<20} {:>15} {:>12} {:>12}\n", rank.rank, rank.host,
                        rate_text("compute", rank.flops_per_s),
                        rate_text("memory", rank.memory_bytes_per_s),
                        rate_text("disk", rank.disk_bytes_per_s));
  }
  if (!report.links.empty()) {
    const auto slowest = std::min_element(report.links.begin(), report.links.end(),
                                          [](const PreflightLink& x, const PreflightLink& y) {
                                            return x.bytes_per_s < y.bytes_per_s;
                                          });
    text += fmt::format(
        "links {} measured, median {}; slowest: {} from rank {} to {} ({:.0f} us)\n",
        report.links.size(), rate_text("link", median_link(report)),
        rate_text("link", slowest->bytes_per_s), slowest->a, slowest->b, slowest->latency_s * 1e6);
  }
  const std::vector<OddOne> odd = odd_ones(report);
  for (const OddOne& one : odd) {
    text += fmt::format(
        "odd   rank {} on host {}: {}{} {}, {:.1f} times less than the median {}\n", one.rank,
        one.host, one.what, one.peer < 0 ? "" : fmt::format(" to rank {}", one.peer),
        rate_text(one.what, one.value), one.factor(), rate_text(one.what, one.median));
  }
  return text + (odd.empty() ? fmt::format("alike in {:.1f} s\n", report.seconds) : "");
}

}  // namespace trireme
