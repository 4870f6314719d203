#pragma once

#include <string>
#include <utility>
#include <vector>

#include "predict/predict.h"

namespace trireme {

// Rows of text; the first row is the head.
using PageTable = std::vector<std::vector<std::string>>;

// Makes the page of a plan, in the style of a run's report: timelines and memory of its ranks, the
// time of a step by cause, memory by class, traffic by axis. If `layouts` has rows, it begins with
// the layouts from which the plan was chosen. The page is one self-contained file.
std::string plan_page(const RunPlan& plan, const Hardware& hardware, const std::string& name,
                      const PageTable& layouts = {});

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
