#include "cli/scrub_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/input_file.h"
#include "base/json_text.h"
#include "checkpoint/scrub.h"
#include "cli/path_checks.h"
#include "device/host.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

enum class ScrubState { Intact, Repaired, Damaged };
constexpr std::string_view kStateNames[] = {"intact", "repaired", "damaged"};

ScrubState state_of(const ScrubbedFolder& folder) {
  if (!folder.lost.empty()) return ScrubState::Damaged;
  return folder.damage.empty() ? ScrubState::Intact : ScrubState::Repaired;
}
std::string_view state_name(ScrubState state) { return kStateNames[size_t(state)]; }

int64_t num_in(const std::vector<ScrubbedFolder>& folders, ScrubState state) {
  return std::count_if(folders.begin(), folders.end(),
                       [&](const ScrubbedFolder& folder) { return state_of(folder) == state; });
}

std::string newest_intact(const std::vector<ScrubbedFolder>& folders) {
  const ScrubbedFolder* newest = nullptr;
  for (const ScrubbedFolder& folder : folders) {
    if (state_of(folder) == ScrubState::Damaged) continue;
    if (newest == nullptr || folder.step > newest->step) newest = &folder;
  }
  return newest == nullptr ? "" : newest->folder;
}

std::string text_of(const std::vector<ScrubbedFolder>& folders) {
  std::string text;
  for (const ScrubbedFolder& folder : folders) {
    text += fmt::format("{}: {}\n", folder.folder, state_name(state_of(folder)));
    for (const std::string& sentence : folder.damage) text += "  damaged   " + sentence + "\n";
    for (const std::string& file : folder.repaired) text += "  repaired  " + file + "\n";
    for (const std::string& why : folder.lost) text += "  lost      " + why + "\n";
  }
  return text +
         fmt::format("{} intact, {} repaired, {} damaged\n", num_in(folders, ScrubState::Intact),
                     num_in(folders, ScrubState::Repaired), num_in(folders, ScrubState::Damaged));
}

Json json_of(const std::vector<ScrubbedFolder>& folders) {
  Json list = Json::array();
  for (const ScrubbedFolder& folder : folders) {
    list.push_back({{"path", folder.folder},
                    {"step", folder.step},
                    {"state", state_name(state_of(folder))},
                    {"damage", folder.damage},
                    {"repaired", folder.repaired},
                    {"lost", folder.lost}});
  }
  return {{"checkpoints", list},
          {"intact", num_in(folders, ScrubState::Intact)},
          {"repaired", num_in(folders, ScrubState::Repaired)},
          {"damaged", num_in(folders, ScrubState::Damaged)},
          {"newest_intact", newest_intact(folders)}};
}

}  // namespace

Result<int> run_scrub(const ScrubCommandOptions& options, CommandIo& io) {
  for (const std::string& folder : options.folders) {
    if (is_url(folder)) {
      return usage(folder +
                   ": this command repairs files of this machine; the chunks of a store are "
                   "repaired by `trireme store scrub`, and `trireme checkpoint verify " +
                   folder + "` checks a checkpoint in it");
    }
    TRIREME_TRY_DONE(require_folder(folder));
  }
  const int threads = options.threads > 0 ? options.threads : num_available_cores();
  TRIREME_TRY(folders,
              scrub(options.folders, {.num_threads = threads, .repairs = !options.verifies_only}));
  if (folders.empty()) {
    return usage(fmt::format("{}: no checkpoint, neither here nor in checkpoints/",
                             fmt::join(options.folders, ", ")));
  }
  io.out << (options.json ? lenient_json_text(json_of(folders), 2) + "\n" : text_of(folders));
  const int64_t num_damaged = num_in(folders, ScrubState::Damaged);
  if (num_damaged == 0) return 0;
  const std::string newest = newest_intact(folders);
  return damaged(fmt::format(
      "{} of {} checkpoints {} damaged; {}", num_damaged, folders.size(),
      num_damaged == 1 ? "stays" : "stay",
      newest.empty() ? "none is intact" : "the newest one that is intact is " + newest));
}

}  // namespace trireme
