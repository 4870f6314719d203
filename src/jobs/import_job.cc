#include "jobs/import_job.h"

#include <fmt/format.h>

#include <algorithm>

#include "jobs/import_forms.h"

namespace trireme {

bool is_overridden(const ImportRequest& request, std::string_view key) {
  return std::any_of(request.overrides.begin(), request.overrides.end(),
                     [&](const ConfigAssignment& one) { return one.key == key; });
}

Result<ImportedJob> import_job(const ImportRequest& request) {
  if (const size_t zero = request.text.find('\0'); zero != std::string_view::npos) {
    return usage(
        fmt::format("{}: this file is binary, with a zero at byte {}; name the text file "
                    "that starts the job of {}",
                    request.source, zero, title_of(request.trainer)));
  }
  switch (request.trainer) {
    case JobTrainer::Megatron:
      return import_megatron(request);
    case JobTrainer::Torchtitan:
      return import_torchtitan(request);
    case JobTrainer::Deepspeed:
      return import_deepspeed(request);
    case JobTrainer::Nanotron:
    case JobTrainer::Accelerate:
      break;
  }
  return usage(
      fmt::format("jobs of {} are not read; read one of Megatron-LM, torchtitan or "
                  "DeepSpeed",
                  title_of(request.trainer)));
}

Result<ImportedJob> import_arguments(const std::vector<std::string>& words,
                                     const ImportRequest& request) {
  if (request.trainer != JobTrainer::Megatron) {
    return usage(fmt::format("{} reads a file, not arguments; name the file after --from",
                             title_of(request.trainer)));
  }
  ShellCommand command;
  for (const std::string& word : words) {
    command.push_back({word, static_cast<int>(command.size()) + 1});
  }
  return import_megatron_words(command, request);
}

}  // namespace trireme
