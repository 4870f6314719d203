#include "store/store_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json_text.h"
#include "store/metadata_records.h"
#include "store/store_path.h"

namespace trireme {
namespace {

constexpr int64_t kMostStoreFileBytes = int64_t{16} << 20;

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".json") names.push_back(entry->path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace

std::string store_file_path(const std::string& stores_folder, const std::string& name) {
  return stores_folder + "/" + name + ".json";
}

std::string text_of(const StoreFile& file) {
  nlohmann::ordered_json json = {{"store", hex64(file.id)},
                                 {"name", file.name},
                                 {"code", text_of(file.code)},
                                 {"dirs", file.dirs}};
  if (!file.servers.empty()) {
    json.erase("dirs");
    json["servers"] = file.servers;
  }
  if (!file.mounts.empty()) json["mounts"] = file.mounts;
  return json_text(json, 2) + "\n";
}

Result<StoreFile> parse_store_file(const std::string& text) {
  TRIREME_TRY(json, parse_bounded_json(text));
  StoreFile file;
  try {
    const auto id = json.at("store").get<std::string>();
    const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), file.id, 16);
    if (error != std::errc() || end != id.data() + id.size() || file.id == 0) {
      return damaged("the key store must be a hexadecimal number of 64 bits, and not 0");
    }
    file.name = json.at("name").get<std::string>();
    TRIREME_TRY(code, parse_store_code(json.at("code").get<std::string>()));
    file.code = code;
    if (json.contains("servers")) {
      file.servers = json.at("servers").get<std::vector<std::string>>();
    } else {
      file.dirs = json.at("dirs").get<std::vector<std::string>>();
    }
    if (json.contains("mounts")) file.mounts = json.at("mounts").get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception& error) {
    return damaged(json_problem(error.what()));
  }
  TRIREME_TRY_DONE(check_store_name(file.name));
  if (!file.servers.empty()) return file;
  if (int(file.dirs.size()) < file.code.num_chunks() || file.dirs.size() > kMostServers) {
    return damaged(fmt::format("the code {} needs at least {} folders, and dirs names {}",
                               text_of(file.code), file.code.num_chunks(), file.dirs.size()));
  }
  if (!file.mounts.empty() && file.mounts.size() != file.dirs.size()) {
    return damaged(fmt::format("the key mounts has {} entries for {} dirs", file.mounts.size(),
                               file.dirs.size()));
  }
  return file;
}

Result<StoreFile> find_store(const std::string& stores_folder, const std::string& name) {
  TRIREME_TRY_DONE(check_store_name(name));
  const std::string path = store_file_path(stores_folder, name);
  if (!std::filesystem::exists(path)) {
    const std::vector<std::string> names = names_in(stores_folder);
    const std::string there =
        names.empty() ? "there is none" : fmt::format("there is {}", fmt::join(names, ", "));
    return usage(
        fmt::format("no store is called {} in {} ({}); name another folder with --at, or "
                    "make one: trireme store create {} --code 4+2 --dirs A,B,C,D,E,F",
                    name, stores_folder, there, name));
  }
  TRIREME_TRY(text, read_text_file(path, kMostStoreFileBytes));
  Result<StoreFile> file = parse_store_file(text);
  if (!file.ok()) return with_context(file.error(), path);
  if (file->name != name) return damaged(path + ": the key name has another name than the file");
  return file;
}

}  // namespace trireme
