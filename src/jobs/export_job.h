#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "jobs/trainer.h"
#include "schema/run_config.h"

namespace trireme {

// A layout to be written for another trainer. The configuration has a plan.
struct ExportRequest {
  JobTrainer trainer = JobTrainer::Megatron;
  RunConfig config;                   // with the vocabulary of its data
  std::vector<int64_t> stage_layers;  // [stage] of the pipeline; empty: all alike
  std::string path;  // the file's name; its ending may choose the form, "" the usual one
};

struct ExportedFile {
  std::string path;
  std::string text;
};

struct ExportedJob {
  std::vector<ExportedFile> files;  // the first one has the name that was asked for
  std::vector<std::string> notes;   // sentences: what differs there, and what was left out
};

// Writes the layout in the trainer's own keys. A setting that the trainer cannot express is
// Infeasible; the message has a line for each, with our key, its value, the reason and a remedy.
Result<ExportedJob> export_job(const ExportRequest& request);

// The same configuration with every default filled in, and with settings that have no effect (such
// as the shards of one rank) in one form. Equal layouts have equal spelled-out configurations.
RunConfig spelled_out(const RunConfig& config);

}  // namespace trireme
