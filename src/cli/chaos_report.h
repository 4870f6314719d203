#pragma once

#include <optional>
#include <string>
#include <vector>

#include "chaos/same_numbers.h"
#include "chaos/storm.h"

namespace trireme {

// The result of a storm, compared with the undisturbed run.
struct ChaosReport {
  FaultPlan plan;
  std::string folder;
  int64_t steps = 0;
  double step_s = 0.0;  // undisturbed
  int exit_code = 0;    // of the job under faults
  bool has_ended_well = false;
  std::vector<InjectedFault> faults;
  int64_t failures = 0;  // that the job has counted
  int64_t redone_steps = 0;
  std::optional<double> effective, predicted;  // shares of the time
  Comparison compared;

  int64_t survived() const;
  bool is_good() const {
    return has_ended_well && survived() == int64_t(faults.size()) && compared.all_equal();
  }
};

std::string chaos_text(const ChaosReport& report);
std::string chaos_json(const ChaosReport& report);

}  // namespace trireme
