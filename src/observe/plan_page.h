#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "goodput/forecast.h"
#include "planner/diagnosis.h"
#include "predict/what_if.h"

namespace trireme {

// Rows of text; the first row is the head.
using PageTable = std::vector<std::vector<std::string>>;

// A plan's page shows these parts beside the plan.
struct PlanPageParts {
  PageTable layouts;  // from which the plan was chosen; empty: it was not
  std::vector<StepFinding> findings;
  const WhatIf* what_if = nullptr;           // null: nothing is disturbed
  const GoodputForecast* goodput = nullptr;  // null: nobody asked what failures cost
  std::optional<double> price_per_hour;      // of one device
};

// Makes the page of a plan, in the style of a run's report: timelines and memory of its ranks, with
// the slowest beside the median, the time of a step by cause, the diagnosis, memory by class,
// traffic by axis, what failures cost. If ranks are disturbed, every timeline stands beside the
// disturbed one. The page is one self-contained file.
std::string plan_page(const RunPlan& plan, const Hardware& hardware, const std::string& name,
                      const PlanPageParts& parts);

// The page of a schedule alone: its timeline below a list of facts (name, value).
struct SchedulePage {
  std::string name;
  std::string subtitle;
  std::vector<std::pair<std::string, std::string>> facts;
  const Schedule& schedule;
  const Timeline& timeline;
};
std::string schedule_page(const SchedulePage& page);

}  // namespace trireme
