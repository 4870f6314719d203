#pragma once

#include <string>

#include "jobs/foreign_job.h"
#include "jobs/job_writer.h"
#include "schema/mesh.h"

namespace trireme {

// Each of these functions translates a request for one trainer.
Result<ExportedJob> export_megatron(const ExportRequest& request);
Result<ExportedJob> export_torchtitan(const ExportRequest& request);
Result<ExportedJob> export_deepspeed(const ExportRequest& request);
Result<ExportedJob> export_nanotron(const ExportRequest& request);
Result<ExportedJob> export_accelerate(const ExportRequest& request);

// The texts of settings whose keys have dots, such as "zero_optimization.stage": the keys of one
// section are neighbours.
std::string json_text(const ForeignJob& job);
std::string yaml_text(const ForeignJob& job);
std::string toml_text(const ForeignJob& job);

// Returns lines such as "  --num-layers 24", one for each setting whose key begins with "--".
std::string argument_lines(const ForeignJob& job);
// Returns the number of nodes of `ranks` ranks and how many ranks each has; a node has at most 8.
struct Nodes {
  int64_t count = 1;
  int64_t ranks = 1;
};
Nodes nodes_of(int64_t ranks);

// True if the ranks have the places of a trainer with pp outermost, outside dp, and tp innermost.
bool has_pp_outermost(const ParallelConfig& parallel);

// Returns "exported.EXT" or the path with another ending.
std::string with_ending(const std::string& path, const std::string& ending);
std::string ending_of(const std::string& path);

// The module of torchtitan with this configuration.
std::string torchtitan_module(const JobWriter& writer);

}  // namespace trireme
