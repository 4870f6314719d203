#include "observe/goodput_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "failures/failure_class.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kBins = 40;  // of the distribution

Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json intervals_json(const TierIntervals& intervals) {
  return {{"memory", intervals.memory_s}, {"disk", intervals.disk_s}};
}

Json causes_json(const GoodputForecast& forecast, std::optional<double> price) {
  Json rows = Json::array();
  for (const CauseCost& cost : forecast.by_cause) {
    const double hours = forecast.device_hours(cost.lost_s());
    Json row = {{"cause", cost.cause.name},
                {"class", name_of(cost.cause.failure_class)},
                {"domain", name_of(cost.cause.domain)},
                {"count", cost.count},
                {"lost_s", cost.lost_s()},
                {"down_s", cost.down_s},
                {"redone_s", cost.redone_s},
                {"simulated_count", cost.simulated_count},
                {"device_hours", hours}};
    if (price) row["cost"] = hours * *price;
    rows.push_back(std::move(row));
  }
  return rows;
}

// How many of the simulated runs have a share in each of equal bins.
Json distribution_json(const std::vector<double>& shares) {
  const double least = shares.front(), width = std::max(shares.back() - least, 1e-9) / kBins;
  std::vector<int> runs(kBins, 0);
  for (const double share : shares) {
    ++runs[size_t(std::min(kBins - 1, int((share - least) / width)))];
  }
  return {{"from", least}, {"width", width}, {"runs", runs}};
}

Json curve_json(const std::vector<ShareOfInterval>& curve) {
  Json points = Json::array();
  for (const ShareOfInterval& point : curve) {
    points.push_back({{"interval_s", point.interval_s},
                      {"simulated", point.simulated},
                      {"formula", point.formula}});
  }
  return points;
}

Json sizes_json(const std::vector<MttfOfSize>& sizes) {
  Json rows = Json::array();
  for (const MttfOfSize& row : sizes) {
    Json json = {{"devices", row.devices}, {"mttf_s", finite(row.mttf_s)}};
    if (row.published_s > 0.0) json["published_s"] = row.published_s;
    rows.push_back(std::move(json));
  }
  return rows;
}

}  // namespace

Json goodput_json(const GoodputForecast& forecast, std::optional<double> price_per_hour) {
  const GoodputQuestion& question = forecast.question;
  Json json = {{"rates", question.rates.name},
               {"source", question.rates.source},
               {"devices", question.devices},
               {"hosts", forecast.hosts},
               {"days", question.days},
               {"mttf_s", finite(forecast.mttf_s)},
               {"interval_s", intervals_json(forecast.simulated)},
               {"effective",
                {{"mean", forecast.mean},
                 {"p05", forecast.percentile(0.05)},
                 {"p95", forecast.percentile(0.95)},
                 {"runs", forecast.shares.size()},
                 {"distribution", distribution_json(forecast.shares)}}},
               {"formula", forecast.formula},
               {"formula_holds", forecast.formula_holds},
               {"lost",
                {{"saving", forecast.saving_share},
                 {"down", forecast.down_share},
                 {"redone", forecast.redone_share}}},
               {"by_cause", causes_json(forecast, price_per_hour)},
               {"intervals",
                {{"young", intervals_json(forecast.young)},
                 {"daly", intervals_json(forecast.daly)},
                 {"simulation", intervals_json(forecast.simulated)}}},
               {"curve", curve_json(forecast.curve)},
               {"tiers", question.has_memory_tier ? Json{"memory", "disk"} : Json{"disk"}},
               {"save_s", {{"disk", question.disk_save_s}, {"memory", question.memory_save_s}}},
               {"disk_delay_s", question.disk_delay_s},
               {"spares", forecast.spares.hosts},
               {"hosts_in_repair", forecast.spares.mean_in_repair},
               {"mttf_by_devices", sizes_json(forecast.by_size)}};
  if (forecast.configured) {
    json["configured"] = {{"interval_s", intervals_json(forecast.configured->intervals)},
                          {"effective", forecast.configured->mean},
                          {"formula", forecast.configured->formula}};
  }
  Json changes = Json::array();
  for (const GoodputChange& change : forecast.changes) {
    changes.push_back(
        {{"change", change.change}, {"effective", change.share}, {"gain", change.gain}});
  }
  json["changes"] = changes;
  return json;
}

Json goodput_json(const GoodputReport& report) {
  return {{"effective", finite(report.effective())},
          {"predicted", finite(report.predicted)},
          {"all_s", report.all_s},
          {"seconds",
           {{"compute", report.compute_s},
            {"exposed_comm", report.exposed_comm_s},
            {"stragglers", report.stragglers_s},
            {"bubble", report.bubble_s},
            {"saving", report.saving_s},
            {"failures", report.failures_s},
            {"redone", report.redone_s},
            {"other", report.other_s}}}};
}

}  // namespace trireme
