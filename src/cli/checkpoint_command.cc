#include "cli/checkpoint_command.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "base/json_text.h"
#include "base/units.h"
#include "checkpoint/find_checkpoint.h"
#include "checkpoint/load.h"
#include "cli/path_checks.h"
#include "config/config_load.h"
#include "device/host.h"

namespace trireme {
namespace {

int64_t tensor_bytes(const StoredTensor& tensor) {
  return tensor.shape.num_elements() * size_of(tensor.dtype);
}

nlohmann::ordered_json to_json(const Checkpoint& checkpoint) {
  const CheckpointInfo& info = checkpoint.info();
  nlohmann::ordered_json json = {
      {"path", checkpoint.folder()},     {"step", info.step},
      {"next_sample", info.next_sample}, {"tokens_seen", info.tokens_seen},
      {"optimizer", info.optimizer},     {"tensors", nlohmann::ordered_json::object()}};
  for (const auto& [name, tensor] : checkpoint.index().contents.tensors) {
    const auto extents = tensor.shape.extents();
    json["tensors"][name] = {{"dtype", name_of(tensor.dtype)},
                             {"shape", std::vector<int64_t>(extents.begin(), extents.end())},
                             {"bytes", tensor_bytes(tensor)}};
  }
  return json;
}

// Checks that the configuration can be read: its checksum may be right although its content is
// invalid.
Status check_config(const Checkpoint& checkpoint, const std::vector<std::string>& model_folders) {
  const std::string name = "config.resolved.toml";
  if (!checkpoint.index().attached.contains(name)) return Done{};
  TRIREME_TRY(text, checkpoint.read_attached(name));
  const auto config = load_config_text(text, checkpoint.folder() + "/" + name, model_folders);
  if (!config.ok()) return config.error();
  return Done{};
}

}  // namespace

Result<int> run_checkpoint_inspect(const CheckpointOptions& options, CommandIo& io) {
  TRIREME_TRY_DONE(require_checkpoint(options.path));
  TRIREME_TRY(checkpoint, find_checkpoint(options.path, io.open_input));
  if (options.json) {
    io.out << json_text(to_json(checkpoint), 2) << "\n";
    return 0;
  }
  const CheckpointInfo& info = checkpoint.info();
  io.out << fmt::format("{}: step {}, {} tokens seen, optimizer {}\n", checkpoint.folder(),
                        info.step, info.tokens_seen, info.optimizer);
  int64_t total = 0;
  for (const auto& [name, tensor] : checkpoint.index().contents.tensors) {
    io.out << fmt::format("  {:<40} {:<5} {:<16} {:>10}\n", name, name_of(tensor.dtype),
                          tensor.shape.to_string(), format_bytes(tensor_bytes(tensor)));
    total += tensor_bytes(tensor);
  }
  io.out << fmt::format("{} tensors, {}\n", checkpoint.index().contents.tensors.size(),
                        format_bytes(total));
  return 0;
}

Result<int> run_checkpoint_verify(const CheckpointOptions& options, CommandIo& io) {
  TRIREME_TRY_DONE(require_checkpoint(options.path));
  TRIREME_TRY(checkpoint, find_checkpoint(options.path, io.open_input));
  std::vector<std::string> problems = checkpoint.verify(num_available_cores());
  if (const Status read = check_config(checkpoint, io.model_folders); !read.ok()) {
    problems.push_back(read.error().message);
  }
  if (problems.empty()) {
    io.out << checkpoint.folder() << ": all checksums match\n";
    return 0;
  }
  std::string message;
  for (const std::string& problem : problems) message += (message.empty() ? "" : "\n") + problem;
  return Error{ErrorKind::Damaged, message};
}

}  // namespace trireme
