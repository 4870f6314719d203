#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "cli/command_io.h"
#include "cli/plan_advice.h"
#include "cli/plan_jobs.h"
#include "cli/plan_what_if.h"
#include "cli/run_config_options.h"
#include "compile/run_plan.h"

namespace trireme {

// `trireme plan RUN.toml ...` after parsing.
struct PlanOptions {
  RunConfigOptions config;
  std::string cluster;  // hardware file; "": this machine
  // Search the best layout of the same number of ranks: "" one for all ops, "alpa" op by op.
  std::optional<std::string> search;
  bool pareto = false;  // search, and list what nothing beats in both time and memory
  bool explain = false;
  bool json = false;
  std::string html;                  // file for the plan's page; "": none
  std::optional<int> rank;           // print this one alone
  std::string as;                    // another trainer whose memory is printed; "": none
  std::optional<std::string> graph;  // file for the units' graphs; "" and "-": text on `out`
  PlanAdviceOptions advice;
  WhatIfOptions what_if;
  PlanJobOptions jobs;  // of other trainers, to be read or written
};

// Prints the plan and its predicted cost without running it. An infeasible plan is an error.
Result<int> run_plan(const PlanOptions& options, CommandIo& io);

// Refuses a rank that the plan does not have.
Status check_rank(int rank, const RunPlan& plan);

// "tiny-gpt2": the last configuration file without folder and ending.
std::string name_of_configuration(const PlanOptions& options);

}  // namespace trireme
