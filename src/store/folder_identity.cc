#include "store/folder_identity.h"

#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json_text.h"
#include "base/sealed_json.h"
#include "store/disk_file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostIdentityBytes = 4096;

}  // namespace

std::string identity_path(const std::string& folder) { return folder + "/store.json"; }

Status write_identity(const std::string& folder, const FolderIdentity& identity,
                      DiskFaults* faults) {
  const nlohmann::ordered_json json = {{"store", hex64(identity.store)},
                                       {"name", identity.store_name},
                                       {"server", identity.server},
                                       {"incarnation", identity.incarnation}};
  return replace_file(identity_path(folder), seal_json(json_text(json)), faults);
}

Result<FolderIdentity> read_identity(const std::string& folder) {
  const std::string path = identity_path(folder);
  TRIREME_TRY(text, read_text_file(path, kMostIdentityBytes));
  if (const Status seal = check_seal(text); !seal.ok()) return with_context(seal.error(), path);
  TRIREME_TRY(json, parse_bounded_json(text));
  FolderIdentity identity;
  try {
    const auto store = json.at("store").get<std::string>();
    std::from_chars(store.data(), store.data() + store.size(), identity.store, 16);
    identity.store_name = json.at("name").get<std::string>();
    identity.server = json.at("server").get<std::string>();
    identity.incarnation = json.at("incarnation").get<uint64_t>();
  } catch (const nlohmann::json::exception& error) {
    return damaged(path + ": " + json_problem(error.what()));
  }
  return identity;
}

bool is_empty_folder(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return false;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename() != "lost+found") return false;
  }
  return !error;
}

}  // namespace trireme
