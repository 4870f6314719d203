#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jobs/export_job.h"
#include "jobs/foreign_job.h"
#include "jobs/key_pair.h"
#include "schema/run_config_fields.h"

namespace trireme {

// Translates a configuration into the keys of a trainer and collects what cannot be translated.
class JobWriter {
 public:
  JobWriter(const ExportRequest& request, KeyTable table);

  const RunConfig& config() const { return config_; }
  const ExportRequest& request() const { return request_; }

  // Writes the rows whose say is Same, Flag or NoFlag and whose key begins with `section`, and
  // checks those that are Only.
  void rows(std::string_view section);
  void set(std::string key, ForeignValue value) { job_.set(std::move(key), std::move(value)); }
  void flag(std::string key, bool is_there) {
    if (is_there) job_.set(std::move(key), true);
  }
  // Refuses the value of our key unless `holds`: "zero = 3 cannot be written for X: why; remedy".
  void require(bool holds, std::string_view key, std::string_view why, std::string_view remedy);
  void note(std::string text) { notes_.push_back(std::move(text)); }

  const ForeignJob& job() const { return job_; }
  std::vector<std::string>& notes() { return notes_; }
  // The error that names all refusals, or Done.
  Status status() const;

  bool has_experts() const { return config_.model.family == ModelFamily::Moe; }
  int64_t num_microbatches() const;
  int64_t num_ranks() const;
  // True if every stage of the pipeline has as many layers.
  bool has_even_stages() const;

 private:
  const ConfigField& field(std::string_view key) const;
  void row(const KeyPair& pair);

  const ExportRequest& request_;
  RunConfig config_;
  std::vector<ConfigField> fields_;  // of config_
  KeyTable table_;
  ForeignJob job_;
  std::vector<std::string> problems_;
  std::vector<std::string> notes_;
};

}  // namespace trireme
