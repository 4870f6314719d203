#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "base/file.h"
#include "base/json_text.h"
#include "cli/repository.h"
#include "observe/prometheus.h"

namespace trireme {
namespace {

// A panel would stay empty, without any error, if no run exports its metric.
TEST(Grafana, EveryMetricOfTheDashboardIsExported) {
  const std::string text = read_text_file((kRoot / "docs" / "grafana.json").string()).value();
  const auto dashboard = parse_json(text);
  const std::vector<std::string> names = PrometheusMetrics::names();
  std::set<int> ids;
  int num_queries = 0;
  for (const auto& panel : dashboard.at("panels")) {
    EXPECT_TRUE(ids.insert(panel.at("id").get<int>()).second);
    for (const auto& target : panel.at("targets")) {
      const std::string query = target.at("expr");
      const std::regex metric("trireme_[a-z_]+");
      const auto begin = std::sregex_iterator(query.begin(), query.end(), metric);
      EXPECT_NE(begin, std::sregex_iterator()) << query;
      for (auto found = begin; found != std::sregex_iterator(); ++found) {
        ++num_queries;
        EXPECT_EQ(std::count(names.begin(), names.end(), found->str()), 1) << found->str();
      }
    }
  }
  EXPECT_GT(num_queries, 20);
}

}  // namespace
}  // namespace trireme
