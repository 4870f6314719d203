#pragma once

#include <cstdlib>
#include <string_view>

#include "config/config_load.h"
#include "jobs/export_job.h"
#include "jobs/import_job.h"

namespace trireme {

// The configuration that stands below a job which has no model.
inline RunConfig base_of_jobs() {
  RunConfig base;
  base.model.vocab_size = 256;
  base.data.source = DataSource::Synthetic;
  return base;
}

// Reads a job. It is refused with a message, or gives assignments that load_config accepts or
// refuses with a message.
inline Result<RunConfig> read_checked(const ImportRequest& request) {
  const Result<ImportedJob> job = import_job(request);
  if (!job.ok()) {
    if (job.error().message.empty()) std::abort();
    return job.error();
  }
  const Result<LoadedConfig> loaded = load_config(
      {.ranks = request.ranks, .imported = job->assignments, .imported_from = job->source});
  if (loaded.ok()) return loaded->config;
  if (loaded.error().message.empty()) std::abort();
  return loaded.error();
}

// Any text is read or refused. What was read is written again or refused, and what is written can
// be read.
inline void check_job(JobTrainer trainer, std::string_view text, const char* path, bool has_base) {
  ImportRequest request{.trainer = trainer, .text = text, .source = path, .has_base = has_base};
  if (has_base) request.base = base_of_jobs();
  const Result<RunConfig> config = read_checked(request);
  if (!config.ok()) return;
  const Result<ExportedJob> written =
      export_job({.trainer = trainer, .config = *config, .path = path});
  if (!written.ok()) {
    if (written.error().message.empty()) std::abort();
    return;
  }
  request.text = written->files.front().text;
  request.base = *config;
  request.has_base = true;
  if (!read_checked(request).ok()) std::abort();
}

}  // namespace trireme
