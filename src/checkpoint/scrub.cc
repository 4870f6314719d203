#include "checkpoint/scrub.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>

#include "base/file.h"
#include "base/hash.h"
#include "checkpoint/load.h"
#include "checkpoint/scrub_parts.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::string text_of(const std::string& path) {
  const Result<std::string> text = read_text_file(path);
  return text.ok() ? *text : "";
}

// The folders of checkpoints in a folder that a user names, the oldest first.
std::vector<std::string> checkpoints_in(const std::string& folder) {
  std::error_code error;
  const bool is_checkpoint = fs::exists(folder + "/index.json", error) ||
                             step_of_folder_name(fs::path(folder).filename().string()) >= 0;
  if (is_checkpoint) return {folder};
  std::vector<std::string> found;
  for (const std::string& root : {folder, folder + "/checkpoints"}) {
    for (const auto& entry : fs::directory_iterator(root, error)) {
      if (step_of_folder_name(entry.path().filename().string()) >= 0 && entry.is_directory()) {
        found.push_back(entry.path().string());
      }
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

// A checkpoint that all ranks have written into one folder.
void verify_whole(ScrubbedFolder& scrubbed, const ScrubOptions& options) {
  const Result<Checkpoint> checkpoint = Checkpoint::open(scrubbed.folder);
  if (checkpoint.ok()) {
    scrubbed.damage = checkpoint->verify(options.num_threads, options.progress);
  } else {
    scrubbed.damage.push_back(checkpoint.error().message);
  }
  if (!scrubbed.damage.empty()) {
    scrubbed.lost.push_back("a checkpoint on disk has no parity: use an older one, or a copy");
  }
}

// The folder of a part in the memory of a host.
struct PartFolder {
  ScrubbedFolder* scrubbed = nullptr;
  std::optional<FoundPart> part;  // absent: the record is damaged
};

PartFolder open_folder(ScrubbedFolder& scrubbed) {
  const std::string path = scrubbed.folder + "/" + kHostsFile;
  Result<HostsRecord> record = parse_hosts_record(text_of(path));
  if (record.ok()) return {&scrubbed, FoundPart{scrubbed.folder, std::move(*record)}};
  scrubbed.damage.push_back(with_context(record.error(), path).message);
  return {&scrubbed, std::nullopt};
}

// A damaged record belongs to the only host of the save that no other folder is of.
void repair_record(PartFolder& damaged, std::span<PartFolder> all, const ScrubOptions& options) {
  const auto num_unknown = std::count_if(all.begin(), all.end(), [&](const PartFolder& other) {
    return !other.part && other.scrubbed->step == damaged.scrubbed->step;
  });
  const HostsRecord* record = nullptr;
  std::set<int> known;
  for (const PartFolder& other : all) {
    if (!other.part || other.part->record.step != damaged.scrubbed->step) continue;
    if (record == nullptr) record = &other.part->record;
    if (other.part->record.is_of_save(*record)) known.insert(other.part->record.own);
  }
  const bool is_told =
      record != nullptr && num_unknown == 1 && known.size() + 1 == record->hosts.size();
  if (!is_told || !options.repairs) {
    damaged.scrubbed->lost.push_back(
        fmt::format("{}: which host of which save it is of is not known", kHostsFile));
    return;
  }
  HostsRecord own = *record;
  own.own = 0;
  while (known.contains(own.own)) ++own.own;
  const Status written =
      write_file_atomically(damaged.scrubbed->folder + "/" + kHostsFile, print_hosts_record(own));
  if (!written.ok()) {
    damaged.scrubbed->lost.push_back(written.error().message);
    return;
  }
  damaged.scrubbed->repaired.emplace_back(kHostsFile);
  damaged.part = FoundPart{damaged.scrubbed->folder, std::move(own)};
}

// The index is the same on all hosts. Returns false if no folder of the save has it.
bool repair_index(const FoundPart& part, ScrubbedFolder& scrubbed,
                  std::span<const PartFolder> of_save, const ScrubOptions& options) {
  const std::string path = part.folder + "/index.json";
  const auto matches = [&](const std::string& text) {
    return hash64(text) == part.record.index_checksum;
  };
  if (matches(text_of(path))) return true;
  scrubbed.damage.push_back(path + ": does not match its checksum in " + kHostsFile);
  for (const PartFolder& other : of_save) {
    const std::string text = text_of(other.part->folder + "/index.json");
    if (!matches(text) || !options.repairs) continue;
    if (!write_file_atomically(path, text).ok()) break;
    scrubbed.repaired.emplace_back("index.json");
    return true;
  }
  scrubbed.lost.emplace_back(
      "index.json: no other host of the save has it, or it cannot be written");
  return false;
}

// The parts of one save, and their folders.
void scrub_save(const std::vector<PartFolder>& of_save, const ScrubOptions& options) {
  std::vector<FoundPart> parts;
  std::vector<ScrubbedFolder*> scrubbed;
  for (const PartFolder& folder : of_save) {
    if (!repair_index(*folder.part, *folder.scrubbed, of_save, options)) continue;
    parts.push_back(*folder.part);
    scrubbed.push_back(folder.scrubbed);
  }
  if (!parts.empty()) scrub_parts(parts, scrubbed, options);
}

void scrub_hosts(std::vector<PartFolder> folders, const ScrubOptions& options) {
  for (PartFolder& folder : folders) {
    if (!folder.part) repair_record(folder, folders, options);
  }
  std::erase_if(folders, [](const PartFolder& folder) { return !folder.part; });
  while (!folders.empty()) {
    const HostsRecord record = folders.front().part->record;
    std::vector<PartFolder> of_save;
    const auto is_of_save = [&](const PartFolder& folder) {
      return folder.part->record.is_of_save(record);
    };
    std::copy_if(folders.begin(), folders.end(), std::back_inserter(of_save), is_of_save);
    std::erase_if(folders, is_of_save);
    scrub_save(of_save, options);
  }
}

}  // namespace

Result<std::vector<ScrubbedFolder>> scrub(std::span<const std::string> folders,
                                          const ScrubOptions& options) {
  std::vector<ScrubbedFolder> all;
  for (const std::string& folder : folders) {
    for (const std::string& path : checkpoints_in(folder)) {
      all.push_back({.folder = path,
                     .step = step_of_folder_name(fs::path(path).filename().string()),
                     .damage = {},
                     .repaired = {},
                     .lost = {}});
    }
  }
  std::vector<PartFolder> parts;
  for (ScrubbedFolder& scrubbed : all) {
    std::error_code error;
    if (fs::exists(scrubbed.folder + "/" + kHostsFile, error)) {
      parts.push_back(open_folder(scrubbed));
    } else {
      verify_whole(scrubbed, options);
    }
  }
  scrub_hosts(std::move(parts), options);
  // A run may have removed an old checkpoint meanwhile.
  std::erase_if(all, [](const ScrubbedFolder& scrubbed) {
    std::error_code error;
    return !scrubbed.damage.empty() && !fs::exists(scrubbed.folder, error);
  });
  return all;
}

}  // namespace trireme
