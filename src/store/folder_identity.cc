#include "store/folder_identity.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json_number.h"
#include "base/json_text.h"
#include "base/sealed_json.h"
#include "store/disk_file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostIdentityBytes = 4096;

}  // namespace

std::string identity_path(const std::string& folder) { return folder + "/store.json"; }

std::string text_of(const FolderIdentity& identity) {
  const nlohmann::ordered_json json = {{"store", hex64(identity.store)},
                                       {"name", identity.store_name},
                                       {"server", identity.server},
                                       {"incarnation", identity.incarnation}};
  return seal_json(json_text(json));
}

Result<FolderIdentity> parse_identity(const std::string& text) {
  TRIREME_TRY_DONE(check_seal(text));
  TRIREME_TRY(json, parse_bounded_json(text));
  FolderIdentity identity;
  try {
    const auto store = json.at("store").get<std::string>();
    const auto [end, error] =
        std::from_chars(store.data(), store.data() + store.size(), identity.store, 16);
    if (error != std::errc() || end != store.data() + store.size()) {
      return damaged("the key store must be a hexadecimal number of 64 bits");
    }
    identity.store_name = json.at("name").get<std::string>();
    identity.server = json.at("server").get<std::string>();
    identity.incarnation = whole_number<uint64_t>(json.at("incarnation"));
  } catch (const nlohmann::json::exception& error) {
    return damaged(json_problem(error.what()));
  }
  return identity;
}

Status write_identity(const std::string& folder, const FolderIdentity& identity,
                      DiskFaults* faults) {
  return replace_file(identity_path(folder), text_of(identity), faults);
}

Result<FolderIdentity> read_identity(const std::string& folder) {
  const std::string path = identity_path(folder);
  TRIREME_TRY(text, read_text_file(path, kMostIdentityBytes));
  Result<FolderIdentity> identity = parse_identity(text);
  return identity.ok() ? identity : with_context(identity.error(), path);
}

std::string foreign_entry_of(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    constexpr std::string_view kOwn[] = {"lost+found",   "lock",           "epoch",   "epoch.new",
                                         "log.json.new", "store.json.new", "log.json"};
    if (std::ranges::count(kOwn, name) == 0) return name;
  }
  return "";
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
