#pragma once

#include <string>
#include <utility>
#include <vector>

#include "predict/predict.h"

namespace trireme {

// Rows of text, the head first.
using PageTable = std::vector<std::vector<std::string>>;

// The page of a plan, in the style of a run's report: timelines and memory of its ranks, where the
// time goes, memory by class, traffic by axis; above them, where there are any, the layouts that it
// was chosen from. One file that needs nothing else.
std::string plan_page(const RunPlan& plan, const Hardware& hardware, const std::string& name,
                      const PageTable& layouts = {});

// Of a pipeline program alone: its timeline, with `facts` (name, value) above it.
struct SchedulePage {
  std::string name;
  std::string subtitle;
  std::vector<std::pair<std::string, std::string>> facts;
  const Schedule& schedule;
  const Timeline& timeline;
};
std::string schedule_page(const SchedulePage& page);

}  // namespace trireme
