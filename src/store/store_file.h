#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/store_code.h"

namespace trireme {

// Where a store is: the file NAME.json in the folder in which stores are looked up.
struct StoreFile {
  uint64_t id = 0;
  std::string name;
  StoreCode code;
  std::vector<std::string> dirs;  // absolute; in the order of the servers
  // Addresses of the servers that keep the metadata. If there are any, the store has no dirs: its
  // chunks are at the servers that the metadata name.
  std::vector<std::string> servers = {};
  // Where the disks of the dirs were mounted when the store was made, so that a folder whose disk
  // is not mounted is not taken for a new disk; empty: not known.
  std::vector<std::string> mounts = {};
};

std::string store_file_path(const std::string& stores_folder, const std::string& name);
Result<StoreFile> parse_store_file(const std::string& text);
std::string text_of(const StoreFile& file);
// If there is no such store, the error names those that the folder has.
Result<StoreFile> find_store(const std::string& stores_folder, const std::string& name);

}  // namespace trireme
